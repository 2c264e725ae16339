package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

func newKeeper(t testing.TB, c Config) *Keeper {
	t.Helper()
	k, err := NewKeeper(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// save saves and waits.
func save(t testing.TB, k *Keeper, s State) {
	t.Helper()
	if err := k.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := k.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func openGood(t testing.TB, dir string) *Reader {
	t.Helper()
	r, err := Open(dir, OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func wantError(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\n want %q in it", err, want)
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	for _, e := range must(os.ReadDir(dir)) {
		if e.Name() != ".lock" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestKeep keeps the newest, skips what is not a checkpoint, and removes what a killed process left.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, name{step: 3}.temporary())
	if err := errors.Join(os.Mkdir(left, 0o777), os.WriteFile(filepath.Join(left, "x"), nil, 0o666),
		os.Mkdir(filepath.Join(dir, "step-notes"), 0o777)); err != nil {
		t.Fatal(err)
	}
	k := newKeeper(t, Config{Dir: dir, Keep: 2})
	for step := range int64(5) {
		save(t, k, sample(step*2))
		checkSample(t, openGood(t, dir))
	}
	if got, want := names(t, dir), []string{"step-00000006", "step-00000008", "step-notes"}; !slices.Equal(got,
		want) {
		t.Errorf("got %v, want %v", got, want)
	}
	r, err := OpenStep(dir, 6, OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	checkSample(t, r)
	_, err = OpenStep(dir, 7, OpenConfig{})
	wantError(t, err, "no step 7")
	deep := filepath.Join(dir, "a", "b", "c")
	save(t, newKeeper(t, Config{Dir: deep}), sample(1))
	checkSample(t, openGood(t, deep))
	direct := openGood(t, filepath.Join(dir, "step-00000006"))
	checkSample(t, direct)
}

// TestOpenWhileSaving opens again and again while checkpoints come and go; there is always a good one.
func TestOpenWhileSaving(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir, Keep: 1})
	save(t, k, sample(1))
	done := make(chan error)
	go func() {
		var err error
		for step := int64(2); step < 60 && err == nil; step++ {
			err = k.Save(context.Background(), sample(step))
		}
		done <- errors.Join(err, k.Close())
	}()
	for last := int64(0); ; {
		r, err := Open(dir, OpenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		checkSample(t, r)
		if step := r.Meta().Step; step < last {
			t.Errorf("got step %d after %d", step, last)
		}
		last = r.Meta().Step
		r.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

// TestSaveAgain replaces a step, refuses to go back unasked, and goes back when asked.
func TestSaveAgain(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(2))
	save(t, k, sample(4))
	save(t, k, sample(4))
	if got, want := names(t, dir), []string{"step-00000002", "step-00000004.1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	checkSample(t, openGood(t, dir))
	wantError(t, k.Save(t.Context(), sample(3)), "already holds step-00000004.1: resume from that")
	if err := k.Rewind(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	save(t, k, sample(3))
	if got := must(k.Steps(t.Context())); !slices.Equal(got, []int64{3, 2}) {
		t.Errorf("steps: got %v, want [3 2]", got)
	}
}

// TestBackOverBad continues from a step before one that has gone bad.
func TestBackOverBad(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	save(t, k, sample(2))
	save(t, k, sample(4))
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, filepath.Join(dir, "step-00000004", "device-00001.safetensors"), 200)
	k = newKeeper(t, Config{Dir: dir, Keep: 2})
	save(t, k, sample(3))
	if r := openGood(t, dir); r.Meta().Step != 3 || len(r.Skipped()) != 1 {
		t.Errorf("got step %d, skipped %v", r.Meta().Step, r.Skipped())
	}
	save(t, k, sample(4))
	save(t, k, sample(5))
	if got, want := names(t, dir), []string{"step-00000004.1", "step-00000005"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSnapshot changes the state as soon as Save returns.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	for step := range int64(4) {
		s := sample(step)
		if err := k.Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for i := range s.Tensors {
			for _, p := range s.Tensors[i].Parts {
				clear(p.Data.Bytes())
				clear(p.Box.Size)
			}
			s.Tensors[i] = Tensor{}
		}
		clear(s.Scalars)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	checkSample(t, openGood(t, dir))
	if p := k.Progress(); p.Step != 3 || p.Done != p.Total || p.Total != 4*7*9*4+8 {
		t.Errorf("progress: got %+v", p)
	}
	wantError(t, k.Save(t.Context(), sample(9)), "is closed")
}

// TestReadParts saves what is not in memory, and refuses what cannot be read.
func TestReadParts(t *testing.T) {
	dir := t.TempDir()
	k := newKeeper(t, Config{Dir: dir})
	s := sample(1)
	for i := range s.Tensors {
		for j, p := range s.Tensors[i].Parts {
			s.Tensors[i].Parts[j] = Part{Device: p.Device, Box: p.Box, Read: func(into array.Array) error {
				copy(into.Bytes(), p.Data.Bytes())
				return nil
			}}
		}
	}
	save(t, k, s)
	checkSample(t, openGood(t, dir))
	s.Step = 2
	gone := errors.New("device lost")
	for j := range s.Tensors[2].Parts {
		s.Tensors[2].Parts[j].Read = func(array.Array) error { return gone }
	}
	err := k.Save(t.Context(), s)
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	wantError(t, err, `step 2: tensor "c"[0:7,0:9] of device 0`)
	save(t, k, sample(3))
	checkSample(t, openGood(t, dir))
}

// TestBalance writes copies once, and evenly.
func TestBalance(t *testing.T) {
	var list []safetensors.Named
	for i := range 16 {
		list = append(list, safetensors.Named{Name: string(rune('a' + i)), Array: array.New(array.F32, 10, i+1)})
	}
	p := must(newPlan(Wholes(Meta{}, list, 4)))
	if want := int64(16 * 17 / 2 * 40); p.bytes != want {
		t.Errorf("got %d bytes, want %d", p.bytes, want)
	}
	for i, pieces := range p.files {
		var n int64
		for _, pc := range pieces {
			n += p.size(pc)
		}
		if n != p.bytes/4 {
			t.Errorf("device %d writes %d bytes, want %d", p.devices[i], n, p.bytes/4)
		}
	}
}

func TestRefused(t *testing.T) {
	k := newKeeper(t, Config{Dir: t.TempDir()})
	whole := Whole("w", array.New(array.F32, 4))
	half := func(device, start, size int) Part {
		return Part{Device: device, Box: mesh.Box{Start: []int{start}, Size: []int{size}},
			Data: array.New(array.F32, size)}
	}
	of := func(parts ...Part) []Tensor { return []Tensor{{"w", whole.Type, parts}} }
	for _, c := range []struct {
		state State
		want  string
	}{
		{State{Tensors: []Tensor{whole, whole}}, `two tensors named "w"`},
		{State{Tensors: of()}, `tensor "w": boxes`},
		{State{Tensors: of(half(0, 0, 2))}, "do not cover"},
		{State{Tensors: of(half(0, 0, 3), half(1, 2, 2))}, "do not cover"},
		{State{Tensors: of(half(0, 0, 2), half(1, 3, 2))},
			"device 1: box: got start [3] and size [2], want a place in [4]"},
		{State{Tensors: of(half(-1, 0, 4))}, "got number -1"},
		{State{Tensors: of(Part{Box: boxOf([]int{4}), Data: array.New(array.F64, 4)})},
			"data: got f64[4], want f32[4]"},
		{State{Tensors: of(Part{Box: boxOf([]int{4})})}, "want f32[4]"},
		{State{Meta: Meta{Step: -1}}, "got step -1"},
		{State{Meta: Meta{Scalars: []Scalar{{"x", "bool", "1"}}}}, `got type "bool", want int, float or text`},
		{State{Meta: Meta{Scalars: []Scalar{{"x", "int", "01"}}}}, `got "01", want "1"`},
		{State{Meta: Meta{RNG: []Counter{{Name: "\xff"}}}}, "not UTF-8"},
		{State{Tensors: []Tensor{{Name: "", Type: whole.Type}}}, "a tensor has no name"},
	} {
		wantError(t, k.Save(t.Context(), c.state), c.want)
	}
	if got := names(t, k.c.Dir); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
	_, err := NewKeeper(Config{Dir: k.c.Dir})
	wantError(t, err, "another keeper writes to it (process")
	_, err = NewKeeper(Config{})
	wantError(t, err, "no directory")
	_, err = Open(k.c.Dir, OpenConfig{})
	wantError(t, err, "no good checkpoint: start without one")
	_, err = Open(filepath.Join(k.c.Dir, "none"), OpenConfig{})
	if _, ok := errors.AsType[*NoneError](err); !ok {
		t.Errorf("got %v, want a NoneError", err)
	}
}
