package eager

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// places is the layouts of what belongs to a parameter; a nil mesh is plain data.
type places struct {
	mesh *mesh.Mesh
	// rest is the layout of the parameter, grad of its gradients, slots of what the optimizer remembers.
	rest, grad, slots mesh.Spec
}

// placesOf returns where a parameter and what belongs to it are to be under a stage of ZeRO, nil for none.
func placesOf(p *nn.Param, s optim.ShardingStage) (places, error) {
	at, ok, err := layout.HeldAt(p)
	switch {
	case err != nil:
		return places{}, err
	case !ok:
		return places{}, nil
	}
	x := places{mesh: at.Mesh, rest: at.Spec, grad: at.Spec, slots: at.Spec}
	if s == nil || !sharded(x.mesh, s) {
		return x, nil
	}
	return x.zero(p.Type.Shape, s), nil
}

// sharded reports whether a mesh has the axis that a stage splits over. A parameter on one that lacks it, or
// on none, stays as it is, as in a static run.
func sharded(m *mesh.Mesh, s optim.ShardingStage) bool {
	if m == nil {
		return false
	}
	_, ok := m.Axis(zeroAxis(s))
	return ok
}

func zeroAxis(s optim.ShardingStage) string { return cmp.Or(s.Over(), strategy.DataAxis) }

// checkSharding returns an error where no parameter's mesh has the axis of the stage.
func (o *Optimizer) checkSharding() error {
	s := o.c.Sharding
	if s == nil {
		return nil
	}
	var meshes []*mesh.Mesh
	for _, st := range o.states {
		if sharded(st.at.mesh, s) {
			return nil
		}
		if st.at.mesh != nil && !slices.ContainsFunc(meshes, st.at.mesh.Equal) {
			meshes = append(meshes, st.at.mesh)
		}
	}
	if len(meshes) == 0 {
		return fmt.Errorf("optimizer: stage %d: no parameter is on a mesh: lay them on one with "+
			"dtensor.ShardLayer before the optimizer is made", s.Stage())
	}
	return fmt.Errorf("optimizer: stage %d over axis %q: no mesh of a parameter has such an axis: "+
		"want one of %v", s.Stage(), zeroAxis(s), meshes)
}

// zero returns the layouts of what a stage splits.
func (x places) zero(shape []int, s optim.ShardingStage) places {
	split := layout.SplitBesides(x.mesh, x.rest, shape, mesh.On(zeroAxis(s)))
	x.slots = split
	if s.Stage() >= 2 {
		x.grad = split
	}
	if s.Stage() >= 3 {
		x.rest = split
	}
	return x
}

// slot returns the layout of a slot of type t: that of the others where it has the parameter's shape.
func (x places) slot(p, t op.Type) op.Layout {
	if x.mesh == nil || t.Shape.Equal(p.Shape) {
		return op.Layout{Mesh: x.mesh, Spec: x.slots}
	}
	return op.Layout{Mesh: x.mesh, Spec: mesh.Whole(len(t.Shape))}
}

// unchanged refuses a parameter that has gone elsewhere since the optimizer was made: its slots have not.
func (x places) unchanged(p *nn.Param) error {
	at, ok := op.LayoutOf(p.Value)
	switch {
	case p.Value.Err() != nil:
		return p.Value.Err()
	case !ok && x.mesh == nil, ok && x.mesh != nil && at.Mesh.Equal(x.mesh) && at.Spec.Equal(x.rest):
		return nil
	}
	now, then := "on no mesh", "on no mesh"
	if ok {
		now = fmt.Sprintf("%v on %v", at.Spec, at.Mesh)
	}
	if x.mesh != nil {
		then = fmt.Sprintf("%v on %v", x.rest, x.mesh)
	}
	return fmt.Errorf("parameter %q is %s and was %s when the optimizer was made: "+
		"lay parameters before that, or make another optimizer", p.Name, now, then)
}

// update returns a tensor as the update takes it.
func (x places) update(v *op.Tensor) *op.Tensor { return x.lay(v, x.slots) }

// parameter returns a value as the parameter rests.
func (x places) parameter(v *op.Tensor) *op.Tensor { return x.lay(v, x.rest) }

// gradients returns how gradients are kept; nil leaves them beside the parameter.
func (x places) gradients() func(g *op.Tensor) *op.Tensor {
	if x.mesh == nil || x.grad.Equal(x.rest) {
		return nil
	}
	return func(g *op.Tensor) *op.Tensor { return x.lay(g, x.grad) }
}

func (x places) lay(v *op.Tensor, spec mesh.Spec) *op.Tensor {
	if x.mesh == nil || v.Err() != nil {
		return v
	}
	to := op.Layout{Mesh: x.mesh, Spec: spec}
	at, ok := op.LayoutOf(v)
	switch {
	case !ok:
		return op.Constrain(v, to.Mesh, mesh.Closed(to.Spec))
	case at.Mesh.Equal(to.Mesh) && at.Spec.Equal(to.Spec):
		return v
	}
	return op.Reshard(v, at, to)
}

// alike returns v where like is.
func alike(v, like *op.Tensor) *op.Tensor {
	at, ok := op.LayoutOf(like)
	if !ok {
		return v
	}
	return places{mesh: at.Mesh}.lay(v, at.Spec)
}

// zeros returns a slot before the first step.
func (o *Optimizer) zeros(t op.Type, at op.Layout) (*op.Tensor, error) {
	if at.Mesh == nil {
		return o.scope.Tensor(array.New(t.DType, t.Shape...)), nil
	}
	l, err := at.Spec.Layout(at.Mesh, t.Shape)
	if err != nil {
		return nil, err
	}
	parts := map[int]array.Array{}
	for id, box := range l.Boxes() {
		parts[id] = array.New(t.DType, box.Size...)
	}
	return o.scope.(*runtime.Session).Sharded(ir.Type(t), at, parts)
}
