//go:build linux || darwin

package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
	"pgregory.net/rapid"
)

// spread returns a state on devices, of which a process has its own; whole is the tensors.
func spread(t *rapid.T, devices int, at Places) (of func(process int) State, whole map[string]array.Array) {
	whole = map[string]array.Array{}
	type laid struct {
		name string
		a    array.Array
		l    *mesh.Layout
	}
	var list []laid
	for i := range rapid.IntRange(1, 4).Draw(t, "tensors") {
		shape := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 3).Draw(t, "shape")
		name := fmt.Sprint("tensor", i)
		a := fillRandom(array.New(array.F32, shape...), rapid.Uint64().Draw(t, "seed"))
		m := must(mesh.New([]mesh.Axis{{Name: "x", Size: devices}}, slices.Sorted(rangeOf(devices))...))
		s := mesh.Whole(len(shape))
		if d := rapid.IntRange(-1, len(shape)-1).Draw(t, "dim"); d >= 0 {
			s.Dims[d] = mesh.On("x")
		}
		list, whole[name] = append(list, laid{name, a, must(s.Layout(m, shape))}), a
	}
	return func(process int) State {
		s := State{Meta: Meta{Step: 7, Sample: 70}}
		for _, x := range list {
			tensor := Tensor{Name: x.name, Type: ir.TypeOf(x.a)}
			for device, box := range x.l.Boxes() {
				p := Part{Device: device, Box: box, Away: at.Process(device) != process}
				if !p.Away {
					p.Data = cut(x.a, box)
				}
				tensor.Parts = append(tensor.Parts, p)
			}
			s.Tensors = append(s.Tensors, tensor)
		}
		return s
	}, whole
}

func rangeOf(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestSnapshots: what the processes of all hosts keep makes the checkpoint of the whole state; so it does
// without any one host, if the next holds a copy of what only that one held; without the copy it does if
// others hold it all.
func TestSnapshots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := must(os.MkdirTemp("", "snapshots"))
		defer os.RemoveAll(dir)
		hosts := rapid.SliceOfN(rapid.IntRange(1, 2), 1, 3).Draw(t, "processes of hosts")
		at := Places{}
		for h, n := range hosts {
			for range n {
				at.Host = append(at.Host, fmt.Sprint("host", h))
			}
		}
		size := len(at.Host)
		devices := size * rapid.IntRange(1, 2).Draw(t, "devices a process")
		at.Process = func(d int) int { return d * size / devices }
		of, whole := spread(t, devices, at)
		var shares []*Partial
		var dirs []string
		for p := range size {
			at.Me = p
			w := must(NewSnapshots(SnapshotConfig{Dir: filepath.Join(dir, fmt.Sprint(p)), Places: at}, of(p)))
			for range rapid.IntRange(1, 3).Draw(t, "writes") {
				dirs = append(dirs[:p], filepath.Join(dir, fmt.Sprint(p), must(w.Write(of(p)))))
			}
			_ = w.Close()
			shares = append(shares, must(OpenPartial(dirs[p])))
		}
		checkMerged(t, filepath.Join(dir, "all"), shares, dirs, whole)
		lost := fmt.Sprint("host", rapid.IntRange(0, len(hosts)-1).Draw(t, "lost"))
		var left, bare []*Partial
		var leftDirs []string
		for p, s := range shares {
			if at.Host[p] != lost {
				bare = append(bare, s)
			} else {
				s = s.WithoutShared()
			}
			left, leftDirs = append(left, s), append(leftDirs, dirs[p])
		}
		if len(hosts) == 1 {
			return
		}
		checkMerged(t, filepath.Join(dir, "left"), left, leftDirs, whole)
		sole := false
		for p, s := range shares {
			sole = sole || at.Host[p] == lost && s.SoleFile() != ""
		}
		if _, err := Merge(bare); (err != nil) != sole {
			t.Fatalf("without %s, which alone holds something: %v: got %v", lost, sole, err)
		}
	})
}

// checkMerged reads the checkpoint that shares make.
func checkMerged(t *rapid.T, to string, shares []*Partial, dirs []string, whole map[string]array.Array) {
	m, err := Merge(shares)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(to, dirs); err != nil {
		t.Fatal(err)
	}
	r, err := Open(to, OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Meta().Step != 7 || r.Meta().Sample != 70 {
		t.Fatalf("got %+v", r.Meta())
	}
	for name, want := range whole {
		got, err := r.ReadWhole(name)
		if err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("%s: it is not what was written: %v", name, err)
		}
	}
}

// TestSnapshotChanged: a share whose bytes have changed is known, and one that was not finished is not there.
func TestSnapshotChanged(t *testing.T) {
	dir := t.TempDir()
	a := fillRandom(array.New(array.F32, 64), 1)
	s := State{Meta: Meta{Step: 1}, Tensors: []Tensor{Whole("a", a)}}
	at := Places{Host: []string{"h"}, Process: func(int) int { return 0 }}
	w, err := NewSnapshots(SnapshotConfig{Dir: dir, Places: at}, s)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := OpenPartial(filepath.Join(dir, "s0")); err == nil {
		t.Error("a snapshot that was never written is there")
	}
	name, err := w.Write(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenPartial(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name, p.SoleFile())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-3] ^= 4
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPartial(filepath.Join(dir, name)); err == nil ||
		!strings.Contains(err.Error(), "checksum") {
		t.Errorf("got %v, want a checksum that does not fit", err)
	}
}

// FuzzPartial: no text of a share makes it panic, nor what is merged of it.
func FuzzPartial(f *testing.F) {
	f.Add([]byte(`{"format":"galley checkpoint","version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := ParsePartial(text); err == nil {
			_, _ = Merge([]*Partial{p, p.WithoutShared()})
		}
	})
}

// BenchmarkSnapshots is what a step waits for.
func BenchmarkSnapshots(b *testing.B) {
	s := benchState()
	at := Places{Host: []string{"h"}, Process: func(int) int { return 0 }}
	dir := must(os.MkdirTemp("/dev/shm", "bench"))
	defer os.RemoveAll(dir)
	w := must(NewSnapshots(SnapshotConfig{Dir: filepath.Join(dir, "p"), Places: at}, s))
	b.SetBytes(64 << 20)
	for b.Loop() {
		s.Step++
		must(w.Write(s))
	}
}

// TestSnapshotCheap: a snapshot writes down what tensors there are once, and not every time.
func TestSnapshotCheap(t *testing.T) {
	allocations := func(tensors int) float64 {
		var list []safetensors.Named
		for i := range tensors {
			list = append(list, safetensors.Named{Name: fmt.Sprint("tensor", i), Array: array.New(array.F32, 4)})
		}
		s := Wholes(Meta{}, list, 1)
		at := Places{Host: []string{"a"}, Process: func(int) int { return 0 }}
		w := must(NewSnapshots(SnapshotConfig{Dir: filepath.Join(t.TempDir(), "s"), Places: at}, s))
		defer w.Close()
		return testing.AllocsPerRun(20, func() { must(w.Write(s)) })
	}
	if few, many := allocations(1), allocations(200); many > 2*few+50 {
		t.Errorf("%g allocations of one tensor, %g of 200", few, many)
	}
}
