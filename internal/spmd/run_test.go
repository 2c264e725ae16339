package spmd_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

var long = flag.Bool("long", false,
	"sweep all pairs of Specs, also those of three dims and of max, min, mean and prod")

func parseMesh(t testing.TB, text string) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func parseSpec(t testing.TB, text string) mesh.Spec {
	t.Helper()
	s, err := mesh.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// allSpecs returns every Spec for tensors of a rank: each axis copies, splits a dim, at any place among those
// that split it too, or is partial.
func allSpecs(m *mesh.Mesh, rank int, kinds ...mesh.Reduce) []mesh.Spec {
	list := []mesh.Spec{mesh.Whole(rank)}
	for _, a := range m.Axes() {
		var next []mesh.Spec
		for _, s := range list {
			next = append(next, s)
			for d := range rank {
				for at := 0; at <= len(s.Dims[d]); at++ {
					c := s.Clone()
					c.Dims[d] = append(append(append(mesh.Axes{}, s.Dims[d][:at]...), mesh.Sub{Axis: a.Name}),
						s.Dims[d][at:]...)
					next = append(next, c)
				}
			}
			for _, k := range kinds {
				if len(s.Partial) == 0 || s.Partial[0].Reduce == k {
					next = append(next, s.With(append(s.Clone().Partial, mesh.Pending{Sub: mesh.Sub{Axis: a.Name},
						Reduce: k})...))
				}
			}
		}
		list = next
	}
	return list
}

// randomParts returns what the devices of a layout hold: copies equal, terms of reductions each with numbers
// of their own.
func randomParts(t testing.TB, l *mesh.Layout, rng *rand.Rand) map[int]array.Array {
	t.Helper()
	var axes mesh.Axes
	for _, p := range l.Spec().Partial {
		axes = append(axes, p.Sub)
	}
	terms := make([]map[int]array.Array, l.Mesh().Count(axes))
	plain, err := l.Spec().With().Layout(l.Mesh(), l.Shape())
	if err != nil {
		t.Fatal(err)
	}
	for i := range terms {
		whole := array.New(array.F64, l.Shape()...)
		for j := range whole.Len() {
			array.Data[float64](whole)[j] = float64(rng.IntN(4) + 1)
		}
		if terms[i], err = runtime.Scatter(plain, whole); err != nil {
			t.Fatal(err)
		}
	}
	parts := map[int]array.Array{}
	for _, id := range l.Mesh().Devices() {
		g, err := l.Mesh().GroupOf(id, axes)
		if err != nil {
			t.Fatal(err)
		}
		for i, member := range g {
			if member == id {
				parts[id] = terms[i][id]
			}
		}
	}
	return parts
}

// reshardRun carries out moves on an in-process world and compares the whole value before and after.
func reshardRun(t testing.TB, m *mesh.Mesh, shape []int, from, to mesh.Spec) error {
	moves, _, err := spmd.Reshard(m, ir.Type{DType: array.F64, Shape: shape}, from, to)
	if err != nil {
		return err
	}
	before, err := from.Layout(m, shape)
	if err != nil {
		return err
	}
	after, err := to.Layout(m, shape)
	if err != nil {
		return err
	}
	parts := randomParts(t, before, rand.New(rand.NewPCG(1, 2)))
	want, err := runtime.Gather(before, parts)
	if err != nil {
		return err
	}
	got, err := carryOut(m, shape, before, after, moves, parts)
	if err != nil {
		return fmt.Errorf("%v: %w", moves, err)
	}
	whole, err := runtime.Gather(after, got)
	if err != nil {
		return fmt.Errorf("%v: %w", moves, err)
	}
	if e := farthest(whole, want); e > 1e-12 {
		return fmt.Errorf("%v: got %v, want %v", moves, whole, want)
	}
	return nil
}

// farthest returns the largest difference of two arrays relative to the larger element; NaN counts as
// infinite.
func farthest(got, want array.Array) float64 {
	worst := 0.0
	for i := range want.Len() {
		g, w := got.At(i), want.At(i)
		if e := math.Abs(g-w) / max(1, math.Abs(w)); !(e <= worst) && g != w {
			worst = e
		}
	}
	if !got.Shape().Equal(want.Shape()) || worst != worst {
		return math.Inf(1)
	}
	return worst
}

func carryOut(m *mesh.Mesh, shape []int, before, after *mesh.Layout, moves []spmd.Move,
	parts map[int]array.Array) (map[int]array.Array, error) {
	world, err := inproc.New(m.Size())
	if err != nil {
		return nil, err
	}
	results, err := runtime.Locals(context.Background(), world, m.Devices(),
		func(id int) (*ir.Func, []array.Array, error) {
			b := ir.NewBuilder("reshard")
			x := b.Param("x", ir.TypeOf(parts[id]))
			y, err := spmd.Apply(x, m, id, shape, moves)
			if err != nil {
				return nil, nil, err
			}
			f, err := b.Build(y)
			return f, []array.Array{parts[id]}, err
		})
	if err != nil {
		return nil, err
	}
	got := map[int]array.Array{}
	for id, out := range results {
		got[id] = out[0]
	}
	return got, nil
}

// TestAnyToAny: every Spec to every Spec keeps the value, whether sizes divide or not.
func TestAnyToAny(t *testing.T) {
	sizes := []int{4, 5, 1, 0, 6}
	kinds := []mesh.Reduce{mesh.Sum}
	if *long {
		sizes, kinds = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13}, []mesh.Reduce{mesh.Sum, mesh.Max, mesh.Min,
			mesh.Mean, mesh.Prod}
	}
	for _, text := range []string{"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"} {
		t.Run(text, func(t *testing.T) {
			m, pairs := parseMesh(t, text), 0
			for _, shape := range shapesFor(m, sizes) {
				specs := allSpecs(m, len(shape), kinds...)
				for _, from := range specs {
					for _, to := range specs {
						pairs++
						if err := reshardRun(t, m, shape, from, to); err != nil {
							t.Fatalf("%v from %s to %s: %v", shape, from, to, err)
						}
					}
				}
			}
			t.Logf("%d pairs", pairs)
		})
	}
}

// shapesFor returns the shapes that are tried on a mesh.
func shapesFor(m *mesh.Mesh, sizes []int) [][]int {
	var list [][]int
	for i, n := range sizes {
		list = append(list, []int{n, sizes[(i+1)%len(sizes)]})
		if m.NumAxes() == 1 || *long {
			list = append(list, []int{n})
		}
		if *long && m.NumAxes() == 1 {
			list = append(list, []int{n, sizes[(i+1)%len(sizes)], sizes[(i+2)%len(sizes)]})
		}
	}
	return list
}

// TestSubAxes: parts of axes and other orders keep the value, too.
func TestSubAxes(t *testing.T) {
	for _, c := range []struct{ mesh, from, to string }{
		{"x=4", "@[x,_]", "@[x:(1)2,x:(2)2]"},
		{"x=4", "@[x:(2)2.x:(1)2,_]", "@[x,_]"},
		{"x=4,y=2", "@[y,_]", "@[x,_]"},
		{"x=4,y=2", "@[x.y,_]", "@[y.x,_]"},
		{"x=4,y=2", "@[x:(1)2.y,x:(2)2]", "@[_,y.x]"},
		{"x=4,y=2", "@[x,_]+{y}", "@[y,x]"},
		{"x=4,y=2", "@[_,_]+{x:(1)2,y}", "@[y,x:(1)2]"},
		{"x=6,y=2", "@[x,_]", "@[y,_]"},
		{"x=6,y=2", "@[x:(1)2,_]", "@[_,x:(1)3]"},
		{"x=6", "@[x:(1)3,_]", "@[_,x:(2)3.x:(1)2]"},
		{"x=6", "@[x:(1)3,_]+{x:(3)2:max}", "@[_,x:(2)3]+{x:(1)2}"},
		{"x=2,y=2,z=2", "@[y.x.z,_]", "@[z,y]"},
		{"x=2,y=2,z=2", "@[z,x]", "@[_,x.y.z]"},
		{"x=2,y=2,z=2", "@[z.y.x,_]", "@[_,y]"},
		{"x=2,y=2@[3,1,0,2]", "@[x,y]", "@[y,x]"},
	} {
		m := parseMesh(t, c.mesh)
		for _, shape := range [][]int{{8, 8}, {12, 12}, {24, 16}, {7, 9}, {3, 5}, {0, 8}} {
			if err := reshardRun(t, m, shape, parseSpec(t, c.from), parseSpec(t, c.to)); err != nil {
				t.Errorf("%s %v from %s to %s: %v", c.mesh, shape, c.from, c.to, err)
			}
		}
	}
}
