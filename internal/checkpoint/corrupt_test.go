package checkpoint

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// flip changes one bit of a file.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	b := must(os.ReadFile(path))
	b[at%len(b)] ^= 1 << (at % 8)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestCorrupt damages a file of the newest checkpoint in every way; the file must be named and the one before
// taken.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(1))
	save(t, k, sample(2))
	last := filepath.Join(dir, "step-00000002")
	r := rand.New(rand.NewPCG(1, 2))
	for _, file := range names(t, last) {
		path := filepath.Join(last, file)
		whole := must(os.ReadFile(path))
		damage := map[string]func(){
			"missing":   func() { os.Remove(path) },
			"directory": func() { os.Remove(path); os.Mkdir(path, 0o777) },
			"longer":    func() { os.WriteFile(path, append(whole[:len(whole):len(whole)], '\n'), 0o666) },
		}
		for range 10 {
			n := r.IntN(len(whole))
			damage["flipped"] = func() { flip(t, path, n) }
			damage["cut"] = func() { os.WriteFile(path, whole[:n], 0o666) }
			damage["zeros"] = func() {
				os.WriteFile(path, append(whole[:n:n], make([]byte, len(whole)-n)...), 0o666)
			}
			for what, do := range damage {
				do()
				wantSkipped(t, dir, file, what)
				os.RemoveAll(path)
				if err := os.WriteFile(path, whole, 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := openGood(t, dir); got.Meta().Step != 2 || len(got.Skipped()) > 0 {
		t.Errorf("mended: got step %d, skipped %v", got.Meta().Step, got.Skipped())
	}
}

func wantSkipped(t *testing.T, dir, file, what string) {
	t.Helper()
	got, err := Open(dir, OpenConfig{})
	if err != nil {
		t.Fatalf("%s %s: %v", file, what, err)
	}
	defer got.Close()
	if bad := got.Skipped(); got.Meta().Step != 1 || len(bad) != 1 ||
		bad[0].Path != filepath.Join(dir, "step-00000002") || bad[0].File != file {
		t.Fatalf("%s %s: got step %d, skipped %v", file, what, got.Meta().Step, bad)
	}
	checkSample(t, got)
}

// TestEveryByte flips each byte of the manifest in turn.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(12))
	text := must(os.ReadFile(filepath.Join(dir, "step-00000012", manifestName)))
	for i := range text {
		for _, bit := range []byte{1, 32} {
			text[i] ^= bit
			if _, err := parseManifest(text); err == nil {
				t.Errorf("byte %d as %q: got no error", i, text[i])
			}
			text[i] ^= bit
		}
	}
}

// TestLazy finds damage at the first read from the file, and only there.
func TestLazy(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(1))
	file := filepath.Join(dir, "step-00000001", "device-00000.safetensors")
	flip(t, file, int(must(os.Stat(file)).Size())-1)
	_, err := Open(dir, OpenConfig{})
	none, ok := errors.AsType[*NoneError](err)
	if !ok || len(none.Skipped) != 1 || none.Skipped[0].File != "device-00000.safetensors" {
		t.Fatalf("got %v, want a NoneError that names the file", err)
	}
	wantError(t, err, "no good checkpoint: 1 bad")
	r, err := Open(dir, OpenConfig{Verify: VerifyAtRead})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	failed := 0
	for _, tensor := range r.Tensors() {
		for _, p := range tensor.Parts {
			_, err := r.Read(tensor.Name, p.Box)
			if (err != nil) != (p.Device == 0) {
				t.Errorf("device %d: %q%v: got %v", p.Device, tensor.Name, p.Box, err)
			}
			if err != nil {
				failed++
				wantError(t, err, "device-00000.safetensors: checksum: got crc32c:")
			}
		}
	}
	if failed == 0 {
		t.Error("device 0 wrote nothing")
	}
}

// TestSwapped takes no file of another step, however good it is in itself.
func TestSwapped(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(1))
	save(t, k, sample(2))
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "step-00000003")),
		os.Rename(filepath.Join(dir, "step-00000001"), filepath.Join(dir, "step-00000003"))); err != nil {
		t.Fatal(err)
	}
	r := openGood(t, dir)
	if r.Meta().Step != 2 || len(r.Skipped()) != 1 {
		t.Fatalf("got step %d, skipped %v", r.Meta().Step, r.Skipped())
	}
	wantError(t, r.Skipped()[0], "manifest.json: step: got 1, want 3")
}
