package jit

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "record the bytes of instructions from GNU as")

const recorded = "testdata/encodings.txt"

// listings returns every form several times, always the same, with the instructions on general registers.
func listings() []Listing {
	rng := rand.New(rand.NewPCG(18, 1))
	var list []Listing
	for range 6 {
		list = append(list, Listings(rng.IntN)...)
	}
	return append(list, general()...)
}

// general returns the instructions on general registers and the odd ones.
func general() []Listing {
	one := func(text string, f func(a *asm)) Listing {
		var a asm
		f(&a)
		return Listing{text, a.code}
	}
	full, x := form{length: 2, evex: true, imm: -1}, form{imm: -1}
	masked, zeroed, lane := full, full, full
	masked.mask = 7
	zeroed.mask, zeroed.zero = 7, true
	lane.bcast = true
	list := []Listing{
		one("mov rsi, [rdi+0x1000]", func(a *asm) { a.load(rsi, at(rdi, 0x1000)) }),
		one("mov r12, [rdi+0x1000]", func(a *asm) { a.load(r12, at(rdi, 0x1000)) }),
		one("mov [rdi+0x1000], r9", func(a *asm) { a.store(at(rdi, 0x1000), r9) }),
		one("add rax, [rdi+0x1000]", func(a *asm) { a.addMem(rax, at(rdi, 0x1000)) }),
		one("mov r13, rax", func(a *asm) { a.move(r13, rax) }),
		one("mov rax, rcx", func(a *asm) { a.move(rax, rcx) }),
		one("add rcx, 0x1000", func(a *asm) { a.addImm(rcx, 0x1000) }),
		one("add r13, 0x1000", func(a *asm) { a.addImm(r13, 0x1000) }),
		one("cmp rcx, 0x1000", func(a *asm) { a.cmpImm(rcx, 0x1000) }),
		one("cmp rcx, r13", func(a *asm) { a.cmp(rcx, r13) }),
		one("sfence", func(a *asm) { a.fence() }),
		one("shr rax, 12", func(a *asm) { a.shr(rax, 12) }),
		one("prefetcht0 [r13+rcx*4+0x1000]", func(a *asm) {
			a.prefetch(mem{base: r13, index: rcx, scale: 4, disp: 0x1000}, false)
		}),
		one("prefetchw [r13+rcx*4+0x1000]", func(a *asm) {
			a.prefetch(mem{base: r13, index: rcx, scale: 4, disp: 0x1000}, true)
		}),
		one("prefetcht0 [rbx+rcx*4+0x1000]", func(a *asm) {
			a.prefetch(mem{base: rbx, index: rcx, scale: 4, disp: 0x1000}, false)
		}),
		one("vcvtph2ps zmm9, ymm1", func(a *asm) { a.rr(vcvtph2ps, full, 9, 0, 1) }),
		one("vcvtps2ph ymm1, zmm29, 0", func(a *asm) {
			a.rr(vcvtps2ph, form{length: 2, evex: true, imm: 0}, 29, 0, 1)
		}),
		one("dec rsi", func(a *asm) { a.dec(rsi) }),
		one("mov eax, 0x12345678", func(a *asm) { a.movImm(rax, 0x12345678) }),
		one("kmovw k7, eax", func(a *asm) { a.rr(kmovw, x, 7, 0, rax) }),
		one("vmovd xmm0, eax", func(a *asm) { a.rr(vmovd, x, 0, 0, rax) }),
		one("vmovss xmm1, dword ptr [rdx+0x1000]", func(a *asm) { a.rm(vmovss, x, 1, 0, at(rdx, 0x1000)) }),
		one("vmovss dword ptr [rdx+rax*4+0x1000], xmm0", func(a *asm) {
			a.rm(vmovssTo, x, 0, 0, mem{base: rdx, index: rax, scale: 4, disp: 0x1000})
		}),
		one("vbroadcastss zmm17, xmm3", func(a *asm) { a.rr(vbroadcastss, full, 17, 0, 3) }),
		one(
			"vbroadcastss zmm17, dword ptr [rdx+0x1000]",
			func(a *asm) { a.rm(vbroadcastss, full, 17, 0, at(rdx, 0x1000)) },
		),
		one("vbroadcastss ymm7, dword ptr [rax+0x1000]", func(a *asm) {
			a.rm(vbroadcastss, form{length: 1, imm: -1}, 7, 0, at(rax, 0x1000))
		}),
		one("vaddps zmm30{k7}, zmm30, zmm5", func(a *asm) { a.rr(vaddps, masked, 30, 30, 5) }),
		one("vscalefps zmm9{k7}{z}, zmm20, zmm5", func(a *asm) { a.rr(vscalefps, zeroed, 9, 20, 5) }),
		one("vmovups zmm9{k7}{z}, [rbx+rcx*4+0x1000]", func(a *asm) {
			a.rm(vmovups, zeroed, 9, 0, mem{base: rbx, index: rcx, scale: 4, disp: 0x1000})
		}),
		one("vmovups [r12+rcx*4+0x1000]{k7}, zmm9", func(a *asm) {
			a.rm(vmovupsTo, masked, 9, 0, mem{base: r12, index: rcx, scale: 4, disp: 0x1000})
		}),
		one("vmulps zmm9, zmm21, [rdx+0x1000]{1to16}", func(a *asm) { a.rm(vmulps, lane, 9, 21, at(rdx, 0x1000)) }),
		one(
			"vaddps ymm1, ymm30, ymm2",
			func(a *asm) { a.rr(vaddps, form{length: 1, evex: true, imm: -1}, 1, 30, 2) },
		),
	}
	for _, s := range []struct {
		name string
		kind int
	}{{"vpslld", 6}, {"vpsrad", 4}, {"vpsrld", 2}} {
		wide, narrow := full, form{length: 1, imm: 23}
		wide.imm = 23
		list = append(list,
			one(s.name+" zmm19, zmm28, 23", func(a *asm) { a.shift(wide, s.kind, 19, 28) }),
			one(s.name+" ymm9, ymm14, 23", func(a *asm) { a.shift(narrow, s.kind, 9, 14) }))
	}
	for _, s := range []struct {
		name string
		ins
		kind int
	}{{"vpsllq", shiftImm64, 6}, {"vpsraq", vpsraq, 4}, {"vpsrlq", shiftImm64, 2}} {
		wide := form{length: 2, evex: true, imm: 52}
		list = append(list, one(s.name+" zmm19, zmm28, 52", func(a *asm) { a.rr(s.ins, wide, s.kind, 19, 28) }))
	}
	return list
}

// TestEncoding holds every form to the bytes that GNU as writes for it.
func TestEncoding(t *testing.T) {
	if *record {
		recordBytes(t)
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		code, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = code
	}
	for _, l := range listings() {
		if got := hex.EncodeToString(l.Code); got != want[l.Text] {
			t.Errorf("%s: got %s, want %s", l.Text, got, want[l.Text])
		}
	}
}

// recordBytes has GNU as write the forms.
func recordBytes(t *testing.T) {
	dir := t.TempDir()
	var src, out strings.Builder
	src.WriteString(".intel_syntax noprefix\n")
	list := listings()
	for i, l := range list {
		text := l.Text
		if l.Code[0] == 0xC4 {
			text = "{vex3} " + text
		}
		if l.Code[0] == 0x62 {
			text = "{evex} " + text
		}
		fmt.Fprintf(&src, "l%d: {disp32} %s\n", i, text)
	}
	fmt.Fprintf(&src, "l%d:\n", len(list))
	for i := range list {
		fmt.Fprintf(&src, ".section .len,\"\",@progbits\n.long l%d-l%d\n.text\n", i+1, i)
	}
	asmPath, obj, bin, lens := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.o"), filepath.Join(dir, "a.bin"),
		filepath.Join(dir, "a.len")
	if err := os.WriteFile(asmPath, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"as", "-o", obj, asmPath},
		{"objcopy", "-O", "binary", "-j", ".text", obj, bin},
		{"objcopy", "-O", "binary", "--set-section-flags", ".len=alloc", "-j", ".len", obj, lens}} {
		if msg, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, msg)
		}
	}
	code, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := os.ReadFile(lens)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, l := range list {
		n := int(sizes[4*i])
		if !seen[l.Text] {
			fmt.Fprintf(&out, "%x  %s\n", code[:n], l.Text)
		}
		seen[l.Text], code = true, code[n:]
	}
	if err := os.MkdirAll(filepath.Dir(recorded), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recorded, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
