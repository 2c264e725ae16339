package dtensor

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// World is a scope for eager tensors on several devices.
type World = runtime.Session

// NewWorld creates n devices in this process; Close releases them. job.Job.NewWorld distributes them over the
// processes of a job.
func NewWorld(host *cpu.Device, n int) (*World, error) {
	w, err := transport.New(n)
	if err != nil {
		return nil, err
	}
	return runtime.NewSession(host, w), nil
}

// specOf returns placements as a Spec for a tensor; too few placements replicate along the remaining axes.
func specOf(m *mesh.Mesh, rank int, ps []mesh.Placement) (mesh.Spec, error) {
	if len(ps) > m.NumAxes() {
		return mesh.Spec{}, fmt.Errorf("placements %v: mesh %v has %d axes", mesh.Placements(ps), m, m.NumAxes())
	}
	all := make(mesh.Placements, m.NumAxes())
	copy(all, ps)
	return all.Spec(m, rank)
}

// Shard distributes x over a mesh with one placement per axis; axes without a placement replicate. On a
// traced tensor it is an annotation from which other shardings are inferred; an eager tensor is moved
// immediately.
func Shard(x *op.Tensor, m *mesh.Mesh, ps ...mesh.Placement) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	spec, err := specOf(m, len(x.Shape()), ps)
	if err != nil {
		return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "shard", Err: err})
	}
	return ShardBySpec(x, m, spec)
}

// ShardBySpec is like Shard with a Spec, which can express more than placements: sub-axes and their order.
func ShardBySpec(x *op.Tensor, m *mesh.Mesh, spec mesh.Spec) *op.Tensor {
	if s, ok := x.Scope().(*cpu.Session); ok && (m.Size() > 1 || !m.Contains(0)) {
		err := fmt.Errorf("mesh %v: the tensor is of a session of one device: make it in a world of several: "+
			"dtensor.NewWorld", m)
		return ir.Invalid(s, &ir.Error{Pos: ir.Caller(), Op: "shard", Err: err})
	}
	if s, ok := runtime.ShardsOf(x); ok {
		return op.Reshard(x, s.Layout, op.Layout{Mesh: m, Spec: spec})
	}
	return op.Constrain(x, m, mesh.Closed(spec))
}

// Reshard moves x to other placements on its mesh or on another one. It is differentiable: the gradient moves
// back.
func Reshard(x *op.Tensor, m *mesh.Mesh, ps ...mesh.Placement) *op.Tensor { return Shard(x, m, ps...) }

// Unshard replicates x on every device of its mesh.
func Unshard(x *op.Tensor) *op.Tensor {
	s, ok := runtime.ShardsOf(x)
	if !ok {
		return x
	}
	return ShardBySpec(x, s.Mesh, mesh.Whole(len(x.Shape())))
}

// FromLocal assembles a tensor from the shards that the devices of a mesh hold, in device order.
func FromLocal(w *World, t op.Type, m *mesh.Mesh, parts map[int]array.Array,
	ps ...mesh.Placement) (*op.Tensor,
	error) {
	spec, err := specOf(m, len(t.Shape), ps)
	if err != nil {
		return nil, err
	}
	return w.Sharded(t, op.Layout{Mesh: m, Spec: spec}, parts)
}

// FromFunc is like FromLocal with shards that f creates, one per distinct position, so that the whole tensor
// never exists in one place.
func FromFunc(w *World, t op.Type, m *mesh.Mesh, f func(box mesh.Box) array.Array,
	ps ...mesh.Placement) (*op.Tensor, error) {
	spec, err := specOf(m, len(t.Shape), ps)
	if err != nil {
		return nil, err
	}
	l, err := spec.Layout(m, t.Shape)
	if err != nil {
		return nil, err
	}
	parts := map[int]array.Array{}
	for id, box := range l.Boxes() {
		parts[id] = f(box)
	}
	return w.Sharded(t, op.Layout{Mesh: m, Spec: spec}, parts)
}

// ToLocal returns the shard of each device, in device order; partial sums are returned unreduced.
func ToLocal(x *op.Tensor) (map[int]array.Array, error) {
	if err := x.Err(); err != nil {
		return nil, err
	}
	s, ok := runtime.ShardsOf(x)
	if !ok {
		return nil, fmt.Errorf("tensor %v is not on a mesh", x.Type())
	}
	return s.Parts, nil
}

// Placements returns the placements of an eager tensor, and whether it is on a mesh at all.
func Placements(x *op.Tensor) (*mesh.Mesh, mesh.Spec, bool) {
	s, ok := runtime.ShardsOf(x)
	if !ok {
		return nil, mesh.Spec{}, false
	}
	return s.Mesh, s.Spec, true
}

// ShardLayer distributes parameters over a mesh. rule is called with the name and type of each and returns
// its placements; nil replicates, as does a nil rule. Values stay tracked.
func ShardLayer(params []*nn.Param, m *mesh.Mesh, rule func(name string, t op.Type) []mesh.Placement) error {
	for _, p := range params {
		var places []mesh.Placement
		if rule != nil {
			places = rule(p.Name, p.Type)
		}
		if p.Value == nil {
			return fmt.Errorf("parameter %q has no value: make the model with nn.Config{Scope: session}", p.Name)
		}
		v := Shard(p.Value, m, places...)
		if v.Err() != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, v.Err())
		}
		p.Value = v.Detach().Track()
	}
	return nil
}

// LocalMap applies f to each device's shards of xs. in and out are the placements of operands and results. A
// result that is partial along an axis is summed over it. LocalMap is differentiable, and on one device it
// just calls f.
func LocalMap(f func(parts []*op.Tensor) []*op.Tensor, m *mesh.Mesh, in, out []mesh.Placements,
	xs ...*op.Tensor) []*op.Tensor {
	fail := func(err error) []*op.Tensor {
		bad := ir.Invalid(xs[0].Scope(), &ir.Error{Pos: ir.Caller(), Op: "local_map", Err: err})
		return slices.Repeat([]*op.Tensor{bad}, len(out))
	}
	if len(in) != len(xs) {
		return fail(fmt.Errorf("%d lists of placements: want one for each of %d operands", len(in), len(xs)))
	}
	ins, outs := make([]mesh.Spec, len(in)), make([]mesh.Spec, len(out))
	for i, ps := range in {
		spec, err := specOf(m, len(xs[i].Shape()), ps)
		if err != nil {
			return fail(fmt.Errorf("operand %d: %w", i, err))
		}
		ins[i] = spec
	}
	ranks, err := op.LocalRanks(f, m, ins, xs...)
	if err != nil {
		return fail(err)
	}
	if len(ranks) != len(out) {
		return fail(fmt.Errorf("%d lists of placements: want one for each of %d results", len(out), len(ranks)))
	}
	for i, ps := range out {
		spec, err := specOf(m, ranks[i], ps)
		if err != nil {
			return fail(fmt.Errorf("result %d: %w", i, err))
		}
		outs[i] = spec
	}
	return op.LocalMap(f, m, ins, outs, xs...)
}
