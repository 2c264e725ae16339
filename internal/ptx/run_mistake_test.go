package ptx

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// mistake is a kernel with one: what is replaced by what, the first time only or each time; and a part of the
// error, none if the results shall be wrong.
type mistake struct {
	name, old, new string
	all            bool
	want           string
}

// mistakes of a ring: of barriers, copies and maps.
var ringMistakes = []mistake{
	{"barrier not set up", `mbarrier\.init.*\n`, "", false, "no barrier was set up"},
	{"barrier not told", `fence\.mbarrier_init.*\n`, "", false, "not told to others"},
	{"barrier for no one", `(mbarrier\.init.*), 1;`, "$1, 0;", false, "want 1 to"},
	{"barrier for fewer", `(mbarrier\.init.*), 4;`, "$1, 3;", false, ""},
	{"barrier for more", `(mbarrier\.init.*), 4;`, "$1, 5;", false,
		"no thread can go on: 1 of block 0 wait at line"},
	{"slot not given back", `@%p\d+ mbarrier\.arrive\.shared.*\n`, "", false, "no thread can go on"},
	{"slot given back twice", `(@%p\d+ mbarrier\.arrive\.shared.*\n)`, "$1$1", true, "no thread can go on"},
	{"slot given back here only", `mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), .*;`, "mov.u32 $1, $2;", false,
		""},
	{"slot of no block", `mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), .*;`,
		"mapa.shared::cluster.u32 $1, $2, 2;", false, "block 2 of a pair"},
	{"fewer bytes", `(expect_tx.*), 49152;`, "$1, 32768;", true, ""},
	{"more bytes", `(expect_tx.*), 49152;`, "$1, 49168;", false, "no thread can go on"},
	{"no bytes", `(@%p\d+ bra L\d+;\nbra L\d+;\nL\d+:\n)mbarrier\.arrive\.expect_tx.*\n`, "$1", false,
		"no thread can go on"},
	{"copy for one", `mov\.b16 (%h\d+), 3;`, "mov.b16 $1, 1;", false, "no thread can go on"},
	{"copy for three", `mov\.b16 (%h\d+), 3;`, "mov.b16 $1, 7;", false, "some of the pair"},
	{"copy to elsewhere", `(cp\.async\S* \[%r\d+)\+0\]`, "$1+1024]", false, ""},
	{"copy to between rows", `(cp\.async\S* \[%r\d+)\+0\]`, "$1+128]", false, "want a multiple of 1024"},
	{"barrier written over", `(st\.shared\.b32 \[%r\d+)\+229504\]`, "$1+229376]", false,
		"want none of the barrier's"},
	{"wrong phase", `(setp\.ne\.u32 %p\d+, %r0, 0;\n@.*\n(?:fence.*\n)+mov\.u32 %r\d+), 1;`, "$1, 0;", false,
		"no thread can go on"},
	{"wait that does not wait", `(mbarrier\.try_wait.*\n@%p\d+ bra L\d+;\n)bra L\d+;\n`, "$1", true, ""},
	{"pair does not meet at first", `barrier\.cluster.*\nbarrier\.cluster.*\n`, "", false,
		"no barrier was set up"},
	{"pair does not meet at last", `barrier\.cluster.*\nbarrier\.cluster.*\n(ret)`, "$1", false, "has ended"},
	{"map without a field", `tensormap\.replace\.tile\.element_stride.*\n`, "", false,
		"fields of the map are not set"},
	{"map of another kind", `(tensormap\.replace\.tile\.swizzle_mode.*), 3;`, "$1, 2;", false,
		"of another kind"},
	{"map not zero before", `st\.shared\.b32.*\n`, "", true, "of the map"},
	{"map not put", `tensormap\.cp_fence.*\n`, "", false, "no map was put"},
	{"map not seen", `fence\.proxy.*\n`, "", false, "has not seen the map"},
	{"map beyond the array", `mov\.u64 (%d\d+), 1024;`, "mov.u64 $1, 2048;", false, "within its"},
}

// mistakes of what else threads do.
var threadMistakes = []mistake{
	{"address too long", `and\.b32 (%r\d+), (%r\d+), 262143;`, "mov.u32 $1, $2;", true, "descriptor"},
	{"descriptor of other rows", `0x4000004000000000`, "0x8000004000000000", false, "descriptor"},
	{"sums not waited for", `wgmma\.wait_group\S* 0;\n`, "", false, "want a wait for the products"},
	{"sides not waited for", `wgmma\.wait_group\S* 1;\n`, "", true, ""},
	{"products not closed", `wgmma\.commit_group.*\n`, "", true, "want a wait for the products"},
	{"no fence", `wgmma\.fence.*\n`, "", true, "want one before"},
	{"sums of nothing", `setp\.ne\.u32 (%p\d+), 0, 0;`, "setp.eq.u32 $1, 0, 0;", false,
		"%f0 is read: want it written before"},
	{"sums never new", `setp\.ne\.u32 (%p\d+), 0, 0;\n`, "", false, "is read: want it written before"},
	{"register not there", `shl\.b32 (%r\d+)`, "shl.b32 %r99999", false, "want a declared register of b32"},
	{"register of another kind", `shl\.b32 (%r\d+)`, "shl.b32 %d0", false, "want a declared register of b32"},
	{"unknown instruction", `shl\.b32`, "shl.b33", false, "shl.b33: unknown instruction"},
	{"unknown label", `bra L1;`, "bra L999;", false, "no label L999"},
	{"operand too many", `ret;`, "ret 1;", false, "want no more"},
	{"operand missing", `shr\.u32 (%r\d+), (%r\d+), .*;`, "shr.u32 $1, $2;", false, "got no more operands"},
	{"no end", `ret;\n`, "", false, "the text ends: want ret"},
	{"other threads", `\.maxntid 384`, ".maxntid 256", false, "want \".maxntid 384, 1, 1\""},
	{"outside of the memory", `(st\.shared\.b32 \[%r\d+)\+\d+\]`, "$1+300000]", false, "within its"},
	{"outside of the array", `(st\.global\S* \[%d\d+)\+\d+\]`, "$1+100000000]", false, "within its"},
	{"not aligned", `(st\.global\S* \[%d\d+)\+0\]`, "$1+8]", false, "want a multiple of 16"},
	{"rows in another order", `xor\.b32`, "add.u32", false, ""},
	{"barrier of all threads", `bar\.sync (%r\d+), 128;`, "bar.sync $1, 384;", true, "no thread can go on"},
	{"barrier left out", `bar\.sync .*\n`, "", true, ""},
	{"part of a warp", `bar\.warp\.sync 0xffffffff`, "bar.warp.sync 0xff", false, "want all"},
	{"threads at different places", `(setp\.lt\.u32 (%p\d+), %r2, 4;\n)`, "setp.lt.u32 $2, %r1, 4;\n", false,
		"threads here"},
	{"endless", `L1:\n`, "L1:\nbra L1;\n", false, "too many steps"},
}

// TestRunMistakes: what would not work on a device does not here.
func TestRunMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("52 kernels with a mistake take longer")
	}
	c := GatedGradient{512, 512, 256}.call().inTurn()
	want := c.want(t)
	for _, m := range append(append([]mistake(nil), ringMistakes...), threadMistakes...) {
		t.Run(m.name, func(t *testing.T) {
			k := c.Kernel
			if k.Text = m.in(k.Text); k.Text == c.Text {
				t.Fatal("the kernel has nothing like that")
			}
			found := c.tried(k, want)
			if found == nil {
				t.Fatal("got no error and the right results")
			}
			if !strings.Contains(found.Error(), m.want) {
				t.Errorf("got error %v, want %s", found, m.want)
			}
			t.Log(found)
		})
	}
}

// tried runs a kernel, with threads and copies in turn and then in some other orders, until it fails or its
// results are wrong.
func (c call) tried(k Kernel, want []array.Array) error {
	how := running{limit: 1 << 23}
	for seed := range uint64(5) {
		got := c.fresh()
		if err := runWith(k, got, how); err != nil {
			return err
		}
		if err := differ(got, want); err != nil {
			return err
		}
		how = running{limit: 1 << 23, dice: rand.New(rand.NewPCG(seed, 0))}
	}
	return nil
}

// in returns a text with the mistake.
func (m mistake) in(text string) string {
	re := regexp.MustCompile(m.old)
	if m.all {
		return re.ReplaceAllString(text, m.new)
	}
	at := re.FindStringSubmatchIndex(text)
	if at == nil {
		return text
	}
	return text[:at[0]] + string(re.ExpandString(nil, m.new, text, at)) + text[at[1]:]
}

// TestRunLaunch: how a kernel is called is checked, too.
func TestRunLaunch(t *testing.T) {
	c := GatedProduct{256, 256, 128}.call()
	for _, change := range []func(k *Kernel){
		func(k *Kernel) { k.Blocks = 3 }, func(k *Kernel) { k.Threads = 100 }, func(k *Kernel) { k.Threads = 256 },
		func(k *Kernel) { k.Shared = 1 << 18 },
		func(k *Kernel) { k.Shared -= mapBytes }, func(k *Kernel) { k.Scratch -= mapBytes },
		func(k *Kernel) { k.Name = "other" }, func(k *Kernel) { k.Text = "" },
	} {
		k := c.Kernel
		change(&k)
		if err := Run(k, c.fresh()); err == nil {
			t.Errorf("%+v: got no error", k)
		}
	}
	if err := Run(c.Kernel, c.arrays[1:]); err == nil {
		t.Error("an array is missing: got no error")
	}
}

// short returns a text with no more than two instructions of a kind: too short to be of use, but not for a
// fuzzer.
func short(text string) string {
	var kept []string
	counts := map[string]int{}
	for _, line := range strings.Split(text, "\n") {
		op, _, _ := strings.Cut(line[strings.LastIndexByte(line, '@')+1:], " ")
		if counts[op]++; counts[op] <= 2 || !strings.HasSuffix(line, ";") || strings.HasPrefix(line, ".") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// FuzzRun: no text makes reading or running it panic or go on for ever.
func FuzzRun(f *testing.F) {
	const name = "fuzzed"
	for _, k := range []Kernel{GatedProduct{256, 256, 128}.Kernel(), GatedGradient{256, 256, 256}.Kernel(),
		RoPEProduct{256, 256, 128, 64, []int{256}, nil}.Kernel()} {
		f.Add(short(strings.Replace(k.Text, k.Name, name, 1)))
	}
	head, _, _ := strings.Cut(GatedProduct{256, 256, 128}.Kernel().Text, "{\n")
	for _, body := range []string{"ret;\n", ".reg .b32 %r<2>;\nL:\nmov.u32 %r1, memory;\nbra L;\n", "",
		"bar.warp.sync 0xffffffff;\nret;\n"} {
		f.Add(strings.Replace(head, "gated_product", name, 1) + "{\n" + body + "}\n")
	}
	f.Fuzz(func(t *testing.T, text string) {
		k := Kernel{Name: name, Text: text, Blocks: 2, Threads: threads, Shared: mapsAt + 3*mapBytes,
			Scratch: 2 * 3 * mapBytes}
		arrays := make([]array.Array, min(max(strings.Count(text, ".param ")-1, 0), 8))
		for i := range arrays {
			arrays[i] = array.New(array.BF16, 256, 16)
		}
		_ = runWith(k, arrays, running{limit: 1 << 16})
	})
}
