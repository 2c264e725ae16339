package backendtest

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// group returns the backend's devices, at least two; one that has fewer is skipped.
func group(t *testing.T, b backend.Backend) (backend.Group, []backend.Backend) {
	t.Helper()
	g, ok := b.(backend.Group)
	if !ok || len(g.Devices()) < 2 {
		t.Skipf("%s is one device", b.Name())
	}
	return g, g.Devices()
}

// line returns a mesh of n devices in a row.
func line(t *testing.T, n int) *mesh.Mesh {
	t.Helper()
	m, err := mesh.New([]mesh.Axis{{Name: "x", Size: n}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shared returns a program that n devices run alike: its results are the sum of all x, the device's part of
// that sum for its own number, and x and y together.
func shared(t *testing.T, m *mesh.Mesh) []*ir.Func {
	t.Helper()
	n := m.Size()
	f := trace(t, types(array.F64, []int{2 * n}, []int{2 * n}), func(in []*op.Tensor) []*op.Tensor {
		sum := op.AllReduce(in[0], m, mesh.On("x"), mesh.Sum)
		return []*op.Tensor{sum, op.ShardSlice(sum, m, mesh.On("x"), 0, nil, 0), op.Add(in[0], in[1])}
	})
	fs := make([]*ir.Func, n)
	for i := range fs {
		fs[i] = f
	}
	return fs
}

// eachDevice returns arguments that differ between devices: x is its number plus the elements of numbers, y
// numbers themselves.
func eachDevice(t *testing.T, devices []backend.Backend) []backend.Buffer {
	t.Helper()
	var args []backend.Buffer
	for i, d := range devices {
		x := numbers(2 * len(devices))
		for k := range x.Len() {
			x.Set(k, x.At(k)+float64(i))
		}
		args = append(args, put(t, d, x), put(t, d, numbers(2*len(devices))))
	}
	return args
}

// spmd runs one program on all devices: collectives meet, each device knows its number, and results are where
// they were made.
func spmd(t *testing.T, b backend.Backend) {
	g, devices := group(t, b)
	n := len(devices)
	exe, err := g.CompileSPMD(shared(t, line(t, n)), backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, exe, eachDevice(t, devices)...)
	if len(out) != 3*n {
		t.Fatalf("got %d results, want three of each of %d devices", len(out), n)
	}
	for i := range devices {
		sum, part, own := read(t, out[3*i]), read(t, out[3*i+1]), read(t, out[3*i+2])
		for k := range 2 * n {
			near(t, "sum", sum.At(k), float64(n)*numbers(2*n).At(k)+float64(n*(n-1)/2))
			near(t, "own", own.At(k), 2*numbers(2*n).At(k)+float64(i))
		}
		for k := range 2 {
			near(t, "part", part.At(k), sum.At(2*i+k))
		}
	}
	// A result is an argument of a program of its device alone, and of no other's.
	f := trace(t, types(array.F64, []int{2 * n}),
		func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{op.Neg(in[0])} })
	last := compile(t, devices[n-1], f, backend.Options{})
	near(t, "negated", read(t, run(t, last, out[3*n-1])[0]).At(1), -read(t, out[3*n-1]).At(1))
	if _, err := last.Run(out[:1]); err == nil {
		t.Error("an argument on another device runs")
	}
}

// togetherDonates: every device's donated buffer is given up, and the others are not; a loop stays on the
// devices.
func spmdDonates(t *testing.T, b backend.Backend) {
	g, devices := group(t, b)
	n := len(devices)
	exe, err := g.CompileSPMD(shared(t, line(t, n)), backend.Options{Donate: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	args := eachDevice(t, devices)
	first := args[0]
	for range 5 {
		out := run(t, exe, args...)
		for i := range devices {
			if _, err := args[2*i].Read(); err == nil {
				t.Fatalf("device %d: a donated buffer can be read", i)
			}
			out[3*i].Free()
			out[3*i+1].Free()
			args[2*i] = out[3*i+2]
		}
	}
	for i := range devices {
		near(t, "after 5 steps", read(t, args[2*i]).At(1), 6*numbers(2*n).At(1)+float64(i))
		near(t, "what was not donated", read(t, args[2*i+1]).At(1), numbers(2*n).At(1))
	}
	args[0] = first
	if _, err := exe.Run(args); err == nil {
		t.Error("a donated buffer can be used again")
	}
}

// togetherMistakes: programs that differ, too many of them, and arguments that are missing or elsewhere are
// errors.
func spmdMistakes(t *testing.T, b backend.Backend) {
	g, devices := group(t, b)
	n := len(devices)
	fs := shared(t, line(t, n))
	if _, err := g.CompileSPMD(append(fs, fs[0]), backend.Options{}); err == nil {
		t.Error("programs of more devices than there are compile")
	}
	other := append([]*ir.Func{trace(t, types(array.F64, []int{2}),
		func(in []*op.Tensor) []*op.Tensor { return in })}, fs[1:]...)
	if _, err := g.CompileSPMD(other, backend.Options{}); err == nil ||
		!strings.Contains(err.Error(), "programs of devices 0 and 1") {
		t.Errorf("programs that differ: got %v", err)
	}
	exe, err := g.CompileSPMD(fs, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	args := eachDevice(t, devices)
	if _, err := exe.Run(args[:len(args)-1]); err == nil {
		t.Error("too few arguments run")
	}
	args[0], args[2] = args[2], args[0]
	if _, err := exe.Run(args); err == nil {
		t.Error("arguments on each other's devices run")
	}
}
