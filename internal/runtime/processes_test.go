package runtime_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// eagerly computes on two meshes of four devices, moves between them, runs a compiled program, and reads
// everything.
func eagerly(w comm.World) (out [][]byte, err error) {
	host := cpu.NewDevice(cpu.Config{Threads: 1})
	defer host.Close()
	s := runtime.NewSession(host, w)
	defer s.Close()
	first, err := mesh.New([]mesh.Axis{{Name: "x", Size: 2}, {Name: "y", Size: 2}}, 0, 1, 2, 3)
	if err != nil {
		return nil, err
	}
	second, err := mesh.New([]mesh.Axis{{Name: "x", Size: 3}}, 1, 2, 4)
	if err != nil {
		return nil, err
	}
	a := array.New(array.F32, 5, 6)
	for i := range a.Len() {
		a.Set(i, float64(i*i%17)/7)
	}
	x := op.Constrain(s.Tensor(a), first, mesh.Closed(mesh.Split(mesh.On("x"), mesh.On("y"))))
	product := op.MatMul(x, op.Transpose(x)) // pending along y until someone needs the sum
	moved := op.Constrain(product, second, mesh.Closed(mesh.Split(nil, mesh.On("x"))))
	values := []*op.Tensor{x, product, moved, op.Tanh(moved)}
	compiled, err := squared(s, second, moved)
	if err != nil {
		return nil, err
	}
	for _, v := range append(values, compiled) {
		whole, err := runtime.Read(v)
		if err != nil {
			return nil, err
		}
		out = append(out, whole.Bytes())
	}
	return out, nil
}

// squared returns x times itself, by a program that is compiled for the devices of a mesh.
func squared(s *runtime.Session, m *mesh.Mesh, x *op.Tensor) (*op.Tensor, error) {
	b := ir.NewBuilder("squared")
	p := b.Param("x", x.Type())
	f, err := b.Build(op.MatMul(p, p))
	if err != nil {
		return nil, err
	}
	rows, columns := mesh.Split(mesh.On("x"), nil), mesh.Split(nil, mesh.On("x"))
	program, err := spmd.Partition(f, []mesh.Spec{rows, columns}, m, spmd.Config{})
	if err != nil {
		return nil, err
	}
	e, err := s.Compile(program, runtime.CompileConfig{})
	if err != nil {
		return nil, err
	}
	out, err := e.RunSharded([]*op.Tensor{x})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// TestProcesses: what processes with some of the devices each compute and read is what one with all of them
// does.
func TestProcesses(t *testing.T) {
	alone, err := inproc.New(5)
	if err != nil {
		t.Fatal(err)
	}
	want, err := eagerly(alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range [][]int{{0, 0, 0, 1, 1}, {1, 0, 1, 0, 1}, {0, 1, 2, 3, 4}, {0, 0, 0, 0, 1}} {
		worlds, err := inproc.Processes(owner)
		if err != nil {
			t.Fatal(err)
		}
		got, errs := make([][][]byte, len(worlds)), make([]error, len(worlds))
		var all sync.WaitGroup
		for i, w := range worlds {
			all.Go(func() { got[i], errs[i] = eagerly(w) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("owners %v: %v", owner, err)
		}
		for process := range got {
			for i := range want {
				if !bytes.Equal(got[process][i], want[i]) {
					t.Errorf("owners %v: process %d: value %d differs", owner, process, i)
				}
			}
		}
	}
}
