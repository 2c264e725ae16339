package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/galley-ml/galley/array"
)

// TestUnreadableIsNotCorrupt: what the system does not let us read may be good. Nothing older is taken,
// nothing saved before it, nothing removed.
func TestUnreadableIsNotCorrupt(t *testing.T) {
	for err, corrupt := range map[error]bool{
		syscall.EACCES: false, syscall.EMFILE: false, syscall.ENFILE: false, syscall.EIO: false,
		syscall.ESTALE: false, syscall.EPERM: false,
		syscall.ENOENT: true, syscall.EISDIR: true, io.ErrUnexpectedEOF: true, errors.New("checksum"): true,
	} {
		got := badFile("run/step-00000001", manifestName, &fs.PathError{Op: "open", Path: "x", Err: err})
		if _, ok := errors.AsType[*CorruptError](got); ok != corrupt || !errors.Is(got, err) {
			t.Errorf("%v: got %T", err, got)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("no file here that cannot be read")
	}
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Keep: 1})
	save(t, k, sample(1))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "step-00000003")
	if err := errors.Join(os.Mkdir(path, 0o777), os.Symlink("/proc/self/mem", filepath.Join(path,
		manifestName))); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, OpenConfig{})
	if _, ok := errors.AsType[*UnreadableError](err); !ok || !errors.Is(err, syscall.EIO) {
		t.Errorf("open: got %v", err)
	}
	k = newKeeper(t, Config{Dir: dir, Keep: 1})
	wantError(t, k.Save(t.Context(), sample(2)), "cannot be read")
	if err := k.Save(t.Context(), sample(4)); err != nil {
		t.Fatal(err)
	}
	if err := k.Wait(t.Context()); err != nil {
		t.Fatalf("there is a good one: %v", err)
	}
	if got, want := names(t, dir), []string{"step-00000004"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestUnreadableStays: where fewer good ones are newer than are to be kept, one that cannot be read stops the
// removal.
func TestUnreadableStays(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no file here that cannot be read")
	}
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Keep: 4})
	for step := range int64(3) {
		save(t, k, sample(step))
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "step-00000001", manifestName)
	if err := errors.Join(os.Remove(file), os.Symlink("/proc/self/mem", file)); err != nil {
		t.Fatal(err)
	}
	k = newKeeper(t, Config{Dir: dir, Keep: 3})
	if err := k.Save(t.Context(), sample(3)); err != nil {
		t.Fatal(err)
	}
	err := k.Wait(t.Context())
	if e, ok := errors.AsType[*SaveError](err); !ok || !e.Saved {
		t.Errorf("got %v, want that the step is saved and older ones stay", err)
	}
	if got := names(t, dir); len(got) != 4 {
		t.Errorf("got %v, want all four", got)
	}
}

// TestRemovedByOthers: a checkpoint that is gone when it is to be removed is no failure.
func TestRemovedByOthers(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Keep: 1})
	save(t, k, sample(1))
	if err := os.RemoveAll(filepath.Join(dir, "step-00000001")); err != nil {
		t.Fatal(err)
	}
	save(t, k, sample(2))
	if got, want := names(t, dir), []string{"step-00000002"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOutcome reports a failed save without waiting, once, and the next save is not in its way.
func TestOutcome(t *testing.T) {
	d := &full{room: 10}
	k := newKeeper(t, Config{Dir: t.TempDir(), files: d})
	if err := k.Save(t.Context(), sample(1)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = k.Outcome()
	}
	wantError(t, err, "save of step 1")
	d.room = 1 << 20
	save(t, k, sample(2))
	if done, err := k.Outcome(); !done || err != nil {
		t.Error(done, err)
	}
}

// TestFinite refuses a state that has diverged, whatever its dtype; the checkpoint before it stays.
func TestFinite(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Finite: true})
	for step, dtype := range []array.DType{array.F32, array.F64, array.F16, array.BF16} {
		a := array.New(dtype, 3)
		state := State{Meta: Meta{Step: int64(step + 1)}, Tensors: []Tensor{Whole("w", a)}}
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			a.Set(2, x)
			err := k.Save(t.Context(), state)
			if e, ok := errors.AsType[*NotFiniteError](err); !ok || e.Tensor != "w" {
				t.Errorf("%v %v: got %v", dtype, x, err)
			}
		}
		a.Set(2, 1)
		save(t, k, state)
	}
	if r := openGood(t, dir); r.Meta().Step != 4 {
		t.Errorf("got step %d", r.Meta().Step)
	}
}

// TestKeepBest keeps the best and the periodic ones beside the newest, also of an earlier process.
func TestKeepBest(t *testing.T) {
	dir := t.TempDir()
	c := Config{Dir: dir, Keep: 2, KeepEvery: 4, KeepBest: "loss"}
	losses := []float64{9, 8, 3, 7, 2, 5, math.NaN(), 6, 4, 4.5}
	var k *Keeper
	for i, loss := range losses {
		if i == 0 || i == 6 {
			if k != nil {
				k.Close()
			}
			k = newKeeper(t, c)
		}
		s := sample(int64(i + 1))
		s.Scalars = append(s.Scalars, Float("loss", loss))
		save(t, k, s)
	}
	want := []string{"step-00000004", "step-00000005", "step-00000008", "step-00000009", "step-00000010"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r, err := OpenBest(dir, "loss", OpenConfig{})
	if err != nil || r.Meta().Step != 5 {
		t.Fatalf("got %v, %v, want step 5", r, err)
	}
	r.Close()
	_, err = OpenBest(dir, "accuracy", OpenConfig{})
	wantError(t, err, "no checkpoint with accuracy")
}

// TestModes: files of state are their owner's.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	save(t, newKeeper(t, Config{Dir: dir}), sample(1))
	for _, f := range names(t, filepath.Join(dir, "step-00000001")) {
		if m := must(os.Stat(filepath.Join(dir, "step-00000001", f))).Mode(); m.Perm() != 0o600 {
			t.Errorf("%s: got %v, want 0600", f, m)
		}
	}
}
