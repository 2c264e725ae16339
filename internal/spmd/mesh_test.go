package spmd_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestAcross: any Spec on one mesh to any Spec on another keeps the value, whether they share devices or not,
// and no byte is sent twice.
func TestAcross(t *testing.T) {
	for _, c := range [][2]string{
		{"x=2@[0,1]", "y=2@[2,3]"},
		{"x=2,y=2", "x=2@[1,3]"}, // a mesh to a part of it
		{"x=2@[1,3]", "x=2,y=2"},
		{"x=2,y=2", "x=2,y=2@[3,2,1,0]"},
		{"x=3@[0,1,2]", "y=2,z=2@[1,2,3,4]"},
	} {
		a, b := parseMesh(t, c[0]), parseMesh(t, c[1])
		for _, shape := range [][]int{{4, 6}, {5, 3}, {1, 2}, {0, 3}} {
			for _, from := range allSpecs(a, 2, mesh.Sum) {
				for _, to := range allSpecs(b, 2, mesh.Sum) {
					acrossRun(t, shape, op.Layout{Mesh: a, Spec: from}, op.Layout{Mesh: b, Spec: to})
				}
			}
		}
	}
}

func acrossRun(t *testing.T, shape []int, from, to op.Layout) {
	t.Helper()
	before, err := from.Spec.Layout(from.Mesh, shape)
	if err != nil {
		t.Fatal(err)
	}
	after, err := to.Spec.Layout(to.Mesh, shape)
	if err != nil {
		t.Fatal(err)
	}
	way, _, err := spmd.Across(ir.Type{DType: array.F64, Shape: shape}, from, to, spmd.Prices{})
	if err != nil {
		t.Fatal(err)
	}
	parts := randomParts(t, before, rand.New(rand.NewPCG(5, 6)))
	want, err := runtime.Gather(before, parts)
	if err != nil {
		t.Fatal(err)
	}
	devices := union(from.Mesh, to.Mesh)
	world, _ := inproc.New(devices[len(devices)-1] + 1)
	results, err := runtime.Locals(context.Background(), world, devices,
		func(id int) (*ir.Func, []array.Array, error) {
			part, ok := parts[id]
			if !ok {
				part = array.New(array.F64, 0, 0)
			}
			bld := ir.NewBuilder("across")
			f, err := bld.Build(way.Apply(bld.Param("x", ir.TypeOf(part)), id))
			return f, []array.Array{part}, err
		})
	if err != nil {
		t.Fatalf("%v from %v %s to %v %s: %v: %v", shape, from.Mesh, from.Spec, to.Mesh, to.Spec, way.Moves(), err)
	}
	got := map[int]array.Array{}
	for _, id := range to.Mesh.Devices() {
		got[id] = results[id][0]
	}
	if whole, err := runtime.Gather(after, got); err != nil || farthest(whole, want) > 0 {
		t.Fatalf("%v from %v %s to %v %s: %v: got %v, want %v, %v", shape, from.Mesh, from.Spec, to.Mesh, to.Spec,
			way.Moves(), whole, want, err)
	}
}

func union(a, b *mesh.Mesh) []int {
	n := 0
	for _, id := range append(a.Devices(), b.Devices()...) {
		n = max(n, id+1)
	}
	var list []int
	for id := range n {
		if a.Contains(id) || b.Contains(id) {
			list = append(list, id)
		}
	}
	return list
}

// TestMeshes: values of one program may be on different meshes.
func TestMeshes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, _ := mesh.Parse("p=2,x=2")
		first, _ := mesh.Parse("x=2@[0,1]")
		second, _ := mesh.Parse("x=2@[2,3]")
		meshes := []*mesh.Mesh{all, first, second}
		f := randomProgram(t)
		c := spmd.Config{Meshes: make([]*mesh.Mesh, f.NumValues())}
		specs := make([]mesh.Spec, f.NumValues())
		for _, v := range values(f) {
			m := rapid.SampledFrom(meshes).Draw(t, "mesh")
			c.Meshes[v.ID()], specs[v.ID()] = m, randomSpec(t, m, v)
		}
		for _, r := range f.Results() {
			c.Results = append(c.Results, randomSpec(t, c.Meshes[r.ID()], r))
		}
		var args []array.Array
		for i, p := range f.Params() {
			args = append(args, ramp(p.Type(), i))
		}
		agreesWith(t, f, specs, all, c, args, 1e-11)
	})
}
