package runtime_test

import (
	"math"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

var allKinds = []mesh.Reduce{mesh.Sum, mesh.Mean, mesh.Max, mesh.Min, mesh.Prod}

// pendingSpecs returns every scalar's Spec in which each axis of a mesh holds copies or is pending.
func pendingSpecs(m *mesh.Mesh, kinds []mesh.Reduce) []mesh.Spec {
	list := []mesh.Spec{mesh.Whole(0)}
	for _, a := range m.Axes() {
		for _, s := range list {
			for _, k := range kinds {
				p := mesh.Pending{Sub: mesh.Sub{Axis: a.Name}, Reduce: k}
				list = append(list, s.With(append(s.Clone().Partial, p)...))
			}
		}
	}
	return list
}

// valueOf returns what a Spec means: terms is one number for each device of a mesh, in its order; those along
// the axis of the innermost reduction are combined first. It is written anew here, over coordinates.
func valueOf(t *testing.T, m *mesh.Mesh, s mesh.Spec, terms []float64) float64 {
	t.Helper()
	place := map[mesh.Reduce]int{mesh.Prod: 0, mesh.Min: 1, mesh.Max: 2, mesh.Sum: 3, mesh.Mean: 3}
	order := slices.Clone(s.Partial)
	slices.SortStableFunc(order, func(a, b mesh.Pending) int { return place[a.Reduce] - place[b.Reduce] })
	terms = slices.Clone(terms)
	for _, p := range order {
		groups, err := m.GroupsOver(mesh.Axes{p.Sub})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			v := terms[g[0]]
			for _, id := range g[1:] {
				switch x := terms[id]; p.Reduce {
				case mesh.Max:
					v = math.Max(v, x)
				case mesh.Min:
					v = math.Min(v, x)
				case mesh.Prod:
					v *= x
				default:
					v += x
				}
			}
			if p.Reduce == mesh.Mean {
				v /= float64(len(g))
			}
			for _, id := range g {
				terms[id] = v
			}
		}
	}
	return terms[0]
}

// scalars returns one number for each device, equal where a Spec has copies.
func scalars(t *testing.T, m *mesh.Mesh, s mesh.Spec) ([]float64, map[int]array.Array) {
	t.Helper()
	l, err := s.Layout(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	terms, parts := make([]float64, m.Size()), map[int]array.Array{}
	for i, group := range l.Replicas() {
		for _, id := range group {
			terms[id] = []float64{1, 10, -100, 1000, 3, -7, 20, 5, 0.5, 11, 13, -2}[i]
			parts[id] = array.New(array.F64)
			parts[id].Set(0, terms[id])
		}
	}
	return terms, parts
}

// TestReadPending: a tensor that is pending along one, two and three axes, in any ways, reads as what its
// Spec means, eagerly, after a move that combines it, and as the result of a static program.
func TestReadPending(t *testing.T) {
	host := cpu.NewDevice(cpu.Config{Threads: 1})
	defer host.Close()
	for _, text := range []string{"x=4", "x=2,y=3", "x=2,y=3,z=2"} {
		m, err := mesh.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		w, err := inproc.New(m.Size())
		if err != nil {
			t.Fatal(err)
		}
		s := runtime.NewSession(host, w)
		defer s.Close()
		for _, spec := range pendingSpecs(m, allKinds) {
			terms, parts := scalars(t, m, spec)
			x, err := s.Sharded(ir.Type{DType: array.F64}, op.Layout{Mesh: m, Spec: spec}, parts)
			if err != nil {
				t.Fatal(err)
			}
			want := valueOf(t, m, spec, terms)
			readsAs(t, spec, x, want)
			readsAs(t, spec, op.Constrain(x, m, mesh.Closed(mesh.Whole(0))), want)
			for _, result := range []mesh.Spec{spec, mesh.Whole(0)} {
				readsAs(t, spec, runStatic(t, s, m, spec, result, x), want)
			}
		}
	}
}

// runStatic returns x through a program that returns it as another Spec says.
func runStatic(t *testing.T, s *runtime.Session, m *mesh.Mesh, from, to mesh.Spec, x *op.Tensor) *op.Tensor {
	t.Helper()
	b := ir.NewBuilder("main")
	f, err := b.Build(b.Param("x", x.Type()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := spmd.Partition(f, []mesh.Spec{from}, m, spmd.Config{Results: []mesh.Spec{to}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Compile(p, runtime.CompileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.RunSharded([]*op.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func readsAs(t *testing.T, spec mesh.Spec, x *op.Tensor, want float64) {
	t.Helper()
	got, err := runtime.Read(x)
	if err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	if g := got.At(0); math.Abs(g-want) > 1e-9*math.Abs(want) {
		t.Errorf("%v: got %v, want %v", spec, g, want)
	}
}
