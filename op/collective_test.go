package op_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// onMesh is a collective on one device of a mesh: the shape of its operand and what it does.
type onMesh struct {
	shape func(device int) []int
	apply func(x *op.Tensor, device int) *op.Tensor
}

func fixedShape(shape ...int) func(int) []int { return func(int) []int { return shape } }

// collectives returns every linear collective on three devices, with equal and with uneven parts.
func collectives(t *testing.T) map[string]onMesh {
	m, err := mesh.Parse("x=3")
	if err != nil {
		t.Fatal(err)
	}
	x := mesh.On("x")
	uneven := []int{2, 2, 1}
	part := func(id int) []int { return []int{uneven[id], 4} }
	dim, whole := mesh.Split(x, nil), mesh.Split(nil, x)
	return map[string]onMesh{
		"all_reduce": {fixedShape(5, 4), func(v *op.Tensor, _ int) *op.Tensor {
			return op.AllReduce(v, m, x,
				mesh.Sum)
		}},
		"mean": {fixedShape(5, 4), func(v *op.Tensor, _ int) *op.Tensor {
			return op.AllReduce(v, m, x,
				mesh.Mean)
		}},
		"all_gather": {fixedShape(2, 4), func(v *op.Tensor, _ int) *op.Tensor {
			return op.AllGather(v, m, x, 1,
				nil)
		}},
		"gather uneven": {part, func(v *op.Tensor, _ int) *op.Tensor { return op.AllGather(v, m, x, 0, uneven) }},
		"reduce_scatter": {fixedShape(6, 4), func(v *op.Tensor, _ int) *op.Tensor {
			return op.ReduceScatter(v, m, x,
				mesh.Sum, 0, nil, 0)
		}},
		"scatter uneven": {fixedShape(5, 4), func(v *op.Tensor, id int) *op.Tensor {
			return op.ReduceScatter(v, m, x, mesh.Mean, 0, uneven, uneven[id])
		}},
		"all_to_all": {fixedShape(2, 6), func(v *op.Tensor, _ int) *op.Tensor {
			return op.AllToAll(v, m, x,
				op.Exchange{Split: 1, Concat: 0})
		}},
		"exchange uneven": {part, func(v *op.Tensor, id int) *op.Tensor {
			sizes := []int{2, 2, 0}
			return op.AllToAll(v, m, x, op.Exchange{Split: 1, Concat: 0, Sizes: sizes, Own: sizes[id], Parts: uneven})
		}},
		"shard_slice": {fixedShape(5, 4), func(v *op.Tensor, id int) *op.Tensor {
			return op.ShardSlice(v, m, x, 0,
				uneven, uneven[id])
		}},
		"shard_pad": {part, func(v *op.Tensor, _ int) *op.Tensor {
			return op.ShardPad(v, m, x, mesh.Sum, 0,
				uneven)
		}},
		"as_partial": {fixedShape(5, 4), func(v *op.Tensor, _ int) *op.Tensor {
			return op.AsPartial(v, m, x,
				mesh.Sum)
		}},
		"ring_shift": {part, func(v *op.Tensor, id int) *op.Tensor {
			return op.RingShift(v, m, x, 1, []int{uneven[(id+2)%3], 4})
		}},
		"collective_permute": {fixedShape(5, 4), func(v *op.Tensor,
			_ int) *op.Tensor {
			return op.CollectivePermute(v, m, dim, whole, nil)
		}},
	}
}

// TestTransposes: the gradient of a collective is its transpose in the world: Σ⟨Ax, y⟩ = Σ⟨x, Aᵀy⟩ over all
// devices.
func TestTransposes(t *testing.T) {
	for name, c := range collectives(t) {
		t.Run(name, func(t *testing.T) {
			world, err := inproc.New(3)
			if err != nil {
				t.Fatal(err)
			}
			forward, backward := make([]float64, 3), make([]float64, 3)
			err = world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
				d := cpu.NewDevice(cpu.Config{Threads: 1})
				defer d.Close()
				s := d.In(r).NewSession()
				rng := rand.New(rand.NewPCG(uint64(r.ID()), 3))
				x := s.Tensor(gaussian(rng, c.shape(r.ID())...)).Track()
				y := c.apply(x, r.ID())
				if y.Err() != nil {
					return y.Err()
				}
				dy := s.Tensor(gaussian(rng, y.Shape()...))
				g := op.Grad([]*op.Tensor{y}, []*op.Tensor{dy}, []*op.Tensor{x})[0]
				var err error
				if forward[r.ID()], err = product(y, dy); err != nil {
					return err
				}
				backward[r.ID()], err = product(x, g)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			a, b := forward[0]+forward[1]+forward[2], backward[0]+backward[1]+backward[2]
			if math.Abs(a-b) > 1e-12*(1+math.Abs(a)) {
				t.Errorf("⟨Ax, y⟩ = %v, ⟨x, Aᵀy⟩ = %v", a, b)
			}
		})
	}
}

func gaussian(rng *rand.Rand, shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range a.Len() {
		array.Data[float64](a)[i] = rng.NormFloat64()
	}
	return a
}

func product(x, y *op.Tensor) (float64, error) {
	a, err := cpu.Read(x)
	if err != nil {
		return 0, err
	}
	b, err := cpu.Read(y)
	if err != nil {
		return 0, err
	}
	return dots([]array.Array{a}, []array.Array{b}), nil
}

// TestReducedGradients: the gradient of a reduction other than a sum goes where the value came from.
func TestReducedGradients(t *testing.T) {
	m, _ := mesh.Parse("x=3")
	terms := []float64{2, 3, 3}
	for kind, want := range map[mesh.Reduce][]float64{mesh.Max: {0, 1.5, 1.5}, mesh.Min: {3, 0, 0},
		mesh.Prod: {27, 18, 18}} {
		world, _ := inproc.New(3)
		got := make([]float64, 3)
		err := world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
			d := cpu.NewDevice(cpu.Config{Threads: 1})
			defer d.Close()
			s := d.In(r).NewSession()
			x := s.Tensor(array.FromSlice([]float64{terms[r.ID()]}, 1)).Track()
			y := op.AllReduce(x, m, mesh.On("x"), kind)
			g, err := cpu.Read(op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x})[0])
			if err == nil {
				got[r.ID()] = g.At(0)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Errorf("%v: got %v, want %v", kind, got, want)
			}
		}
	}
}

// TestCollectiveAlone: a device without a world says so, and a world in which calls do not fit gives an
// error.
func TestCollectiveAlone(t *testing.T) {
	m, _ := mesh.Parse("x=2")
	func() {
		defer func() {
			text, _ := recover().(string)
			if !strings.Contains(text, "all_reduce over x of mesh x=2: the device runs alone") {
				t.Errorf("got %q", text)
			}
		}()
		op.AllReduce(device(t, 1).NewSession().Tensor(array.New(array.F32, 2)), m, mesh.On("x"), mesh.Sum)
	}()
	world, _ := inproc.New(2)
	err := world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		d := cpu.NewDevice(cpu.Config{Threads: 1})
		defer d.Close()
		x := d.In(r).NewSession().Tensor(array.New(array.F32, 2+r.ID()))
		return op.AllReduce(x, m, mesh.On("x"), mesh.Sum).Err()
	})
	var mismatch *comm.MismatchError
	if !errors.As(err, &mismatch) {
		t.Errorf("got %v, want a mismatch", err)
	}
}

// TestCollectiveMistakes: what is wrong with attributes is named.
func TestCollectiveMistakes(t *testing.T) {
	m, _ := mesh.Parse("x=2,y=3")
	b := func() *op.Tensor {
		return ir.NewBuilder("main").Param("x", op.Type{DType: array.F32, Shape: array.Shape{5, 4}})
	}
	for want, y := range map[string]*op.Tensor{
		"no axis \"z\"":           op.AllReduce(b(), m, mesh.On("z"), mesh.Sum),
		"any cannot combine":      op.AllReduce(b(), m, mesh.On("x"), mesh.Any),
		"dim 7 does not fit":      op.AllGather(b(), m, mesh.On("x"), 7, nil),
		"5 elements into 2 equal": op.ReduceScatter(b(), m, mesh.On("x"), mesh.Sum, 0, nil, 0),
		"into [2 2]":              op.ShardSlice(b(), m, mesh.On("x"), 0, []int{2, 2}, 2),
		"cuts and joins dim 0":    op.AllToAll(b(), m, mesh.On("x"), op.Exchange{}),
		"into 2 and 3 pieces": op.CollectivePermute(b(), m, mesh.Split(mesh.On("x"), nil),
			mesh.Split(mesh.On("y"), nil), nil),
		"a part of 5": op.ShardPad(b(), m, mesh.On("x"), mesh.Sum, 0, []int{3, 2}),
	} {
		if err := y.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
}

// TestCollectiveEmit: collectives are written with the groups of devices.
func TestCollectiveEmit(t *testing.T) {
	m, _ := mesh.Parse("x=2,y=2")
	b := ir.NewBuilder("main")
	x := b.Param("x", op.Type{DType: array.F32, Shape: array.Shape{4, 4}})
	y := op.ReduceScatter(op.AllReduce(x, m, mesh.On("x"), mesh.Mean), m, mesh.On("y"), mesh.Sum, 0, nil, 0)
	y = op.AllToAll(op.ShardSlice(y, m, mesh.On("x"), 1, nil, 0), m, mesh.On("y"),
		op.Exchange{Split: 1, Concat: 0})
	f, err := b.Build(op.AsPartial(op.AllGather(y, m, mesh.On("x"), 1, nil), m, mesh.On("y"), mesh.Sum))
	if err != nil {
		t.Fatal(err)
	}
	w := hlo.NewWriter(hlo.Config{Replicas: 4})
	refs := op.EmitFunc(w, f, []hlo.Ref{w.Param(hlo.Type{DType: array.F32, Shape: array.Shape{4, 4}})})
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	text := w.Module("main", refs...)
	for _, want := range []string{`"stablehlo.all_reduce"`, "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>",
		`"stablehlo.reduce_scatter"`,
		"scatter_dimension = 0", `"stablehlo.all_to_all"`, "split_count = 2", `"stablehlo.replica_id"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}
