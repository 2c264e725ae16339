package spmd

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// builder makes the program of one device.
type builder struct {
	p      *Program
	device int
	b      *ir.Builder
	ops    map[*decision]op.Op
	// versions holds the layouts in which the device has each value.
	versions [][]version
}

// version is a value in one layout; nil on a device that does not hold it.
type version struct {
	at    op.Layout
	value *ir.Value
}

func (p *Program) build(device int) (*ir.Func, error) {
	b := &builder{p: p, device: device, b: ir.NewBuilder(p.f.Name()), ops: map[*decision]op.Op{},
		versions: make([][]version, p.f.NumValues())}
	for _, param := range p.f.Params() {
		at := p.layouts[param.ID()]
		var x *ir.Value
		if v, ok := newView(at.Mesh, device); ok {
			x = b.b.Param(param.Name(), ir.Type{DType: param.DType(), Shape: v.shape(param.Shape(), at.Spec)})
		}
		b.add(param, at, x)
	}
	for _, s := range p.steps {
		if err := b.step(s); err != nil {
			return nil, err
		}
	}
	var results []*ir.Value
	for i, r := range p.f.Results() {
		if x := b.convert(r, p.results[i]); p.results[i].to.Mesh.Contains(device) {
			results = append(results, x)
		}
	}
	return b.b.Build(results...)
}

func (b *builder) add(v *ir.Value, at op.Layout, x *ir.Value) {
	b.versions[v.ID()] = append(b.versions[v.ID()], version{at, x})
}

func (b *builder) step(s step) error {
	defer b.b.At(s.node.Pos())()
	in := make([]*ir.Value, len(s.before))
	for i, c := range s.before {
		in[i] = b.convert(s.node.In()[i], c)
	}
	out := make([]*ir.Value, len(s.after))
	if v, ok := newView(s.how.mesh, b.device); ok {
		var err error
		if out, err = b.apply(s.how, v, in); err != nil {
			return &ir.Error{Pos: s.node.Pos(), Op: s.node.Op().Name(), Err: err}
		}
	}
	for i, v := range s.node.Out() {
		b.add(v, op.Layout{Mesh: s.how.mesh, Spec: s.how.give[i]}, out[i])
		b.convert(v, s.after[i])
	}
	return b.b.Err()
}

// apply runs an op on the device's shards, alone or jointly. A constraint is satisfied by then and omitted:
// as a node it would only keep the ops around it from being fused.
func (b *builder) apply(d *decision, v view, in []*ir.Value) ([]*ir.Value, error) {
	if _, ok := d.op.(op.Constrainer); ok {
		return in, nil
	}
	if d.cooperative != nil {
		at, err := d.place(v.device)
		if err != nil {
			return nil, err
		}
		return op.Cooperate(d.cooperative, at, in)
	}
	local, ok := b.ops[d]
	if !ok {
		var err error
		if local, err = d.local(v); err != nil {
			return nil, err
		}
		b.ops[d] = local
	}
	return b.b.Apply(local, in), nil
}

// convert returns a version of a value, creating it if necessary.
func (b *builder) convert(v *ir.Value, c convert) *ir.Value {
	find := func(at op.Layout) int {
		return slices.IndexFunc(b.versions[v.ID()], func(x version) bool { return sameLayout(x.at, at) })
	}
	if i := find(c.to); i >= 0 {
		return b.versions[v.ID()][i].value
	}
	x := b.versions[v.ID()][find(c.from)].value
	for _, l := range c.legs {
		if x == nil && l.from != l.to && l.to.Contains(b.device) {
			x = op.Full(b.b, v.DType(), make([]int, len(v.Shape())), 0)
		}
		x = l.apply(x, b.device, v.Shape())
	}
	if !c.to.Mesh.Contains(b.device) {
		x = nil
	}
	b.add(v, c.to, x)
	return x
}
