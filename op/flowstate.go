package op

import (
	"maps"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// flowState is the state of a value in a body, on each device, if a class of dims is split.
type flowState uint8

const (
	stateSame    flowState = iota // replicated
	stateSplit                    // sharded: the value has a dim of the class
	statePartial                  // unreduced: a term of a sum over devices
	stateZero                     // zeros: both replicated and terms of a sum
	stateBroken                   // unusable
)

// flowClass is a class of dims that is split.
type flowClass struct {
	*flowTies
	class int
	// joint is whether devices add up, inside the bodies, what a node sums along the class.
	joint bool
	// results holds the states of results, and starts the carried values that are sums and so begin with zeros
	// on all devices but one.
	results []flowState
	starts  []int
}

// operand returns the state of an operand of the op.
func (c *flowClass) operand(i int) flowState {
	if c.has(c.operands[i], c.class) {
		return stateSplit
	}
	return stateSame
}

// through returns the states of a body's results, given those of its parameters.
func (c *flowClass) through(body int, params []flowState) []flowState {
	f := c.bodies[body]
	states := make([]flowState, f.NumValues())
	for i, p := range f.Params() {
		states[p.ID()] = params[i]
		if c.has(c.value(body, p), c.class) {
			states[p.ID()] = stateSplit
		}
	}
	for j, n := range f.Nodes() {
		in := make([]flowState, len(n.In()))
		for i, v := range n.In() {
			in[i] = states[v.ID()]
		}
		for i, v := range n.Out() {
			states[v.ID()] = c.made(body, n, c.rules[body][j], in, i)
		}
	}
	var out []flowState
	for _, v := range f.Results() {
		out = append(out, states[v.ID()])
	}
	return out
}

// made returns the state of a node's result, given those of its operands.
func (c *flowClass) made(body int, n *ir.Node, p *mesh.Parsed, in []flowState, result int) flowState {
	v := n.Out()[result]
	isSplit, isPartial := slices.Contains(in, stateSplit), slices.Contains(in, statePartial)
	switch {
	case slices.Contains(in, stateBroken) || isSplit && isPartial:
		return stateBroken
	case c.has(c.value(body, v), c.class):
		if isPartial {
			return stateBroken
		}
		return stateSplit
	case isSplit:
		switch {
		case !c.sums(body, n, p) || v.DType() == array.Bool:
			return stateBroken
		case c.joint:
			return stateSame
		}
		return statePartial
	}
	if o, ok := n.Op().(full); ok && o.Value == 0 {
		return stateZero
	}
	linear := v.DType().IsFloat() && linearIn(n.Op().(Op), in)
	switch {
	case isPartial && linear:
		return statePartial
	case isPartial:
		return stateBroken
	case linear && slices.Contains(in, stateZero):
		return stateZero
	}
	return stateSame
}

// sums reports whether a node sums along its factors of the class.
func (c *flowClass) sums(body int, n *ir.Node, p *mesh.Parsed) bool {
	if p == nil {
		return false
	}
	for i, v := range n.In() {
		h := c.value(body, v)
		for d := range h.rank {
			if c.root(h.base+d) != c.class {
				continue
			}
			for _, name := range p.In[i][d] {
				if p.Factors[p.Index(name)].Reduce != mesh.Sum {
					return false
				}
			}
		}
	}
	return true
}

// linearIn reports whether an op is linear in its unreduced and zero operands together.
func linearIn(o Op, in []flowState) bool {
	l, ok := o.(Multilinear)
	if !ok {
		return false
	}
	for _, g := range l.Linear() {
		fits := true
		for i, s := range in {
			in := len(g) == 0 || slices.Contains(g, i)
			fits = fits && (s == stateZero || (s == statePartial) == in)
		}
		if fits {
			return true
		}
	}
	return false
}

// carried returns the states of the values that a loop carries, which must be the same before and after body;
// these are its first parameters and results. Sums that the body adds to are unreduced from the start.
func (c *flowClass) carried(body int, carry, rest []flowState) (out []flowState, ok bool) {
	for {
		out = c.through(body, slices.Concat(carry, rest))
		again := false
		for i := range carry {
			switch {
			case carry[i] == out[i] || out[i] == stateZero && carry[i] != stateSplit:
			case carry[i] == stateSame && (out[i] == statePartial || out[i] == stateBroken):
				carry[i], again = statePartial, true
				c.starts = append(c.starts, i)
			default:
				return nil, false
			}
		}
		if !again {
			copy(out, carry)
			return out, true
		}
	}
}

// eitherState returns the state of a value that one of two programs computes.
func eitherState(x, y flowState) flowState {
	switch {
	case x == y || y == stateZero && x != stateSplit:
		return x
	case x == stateZero && y != stateSplit:
		return y
	}
	return stateBroken
}

// flowLocal lists what differs on a device from the whole op: results that another device provides, and
// carried values that begin on another one.
type flowLocal struct{ zero, start []int }

// localBodies returns the programs that a device runs in place of the op's.
func localBodies(o flow, at *Place) ([]*ir.Func, flowLocal, error) {
	var local flowLocal
	t, err := tiesOf(o, at.In)
	if err != nil {
		return nil, local, err
	}
	parts := map[int]flowPart{}
	for class, ok := range t.joint {
		if f := at.Rule.Index(t.letters[flowName{class, 0}]); ok && at.Rule.Factors[f].Joint {
			parts[class] = flowPart{at.Ranges[f], at.Assign[f], true}
		}
	}
	for class, c := range t.split {
		f := at.Rule.Index(t.letters[flowName{class, 0}])
		part := flowPart{at.Ranges[f], at.Assign[f], false}
		parts[class] = part
		if first(at, part) {
			continue
		}
		local.start = append(local.start, c.starts...)
		for i, s := range c.results {
			if s == stateSame {
				local.zero = append(local.zero, i)
			}
		}
	}
	slices.Sort(local.zero)
	slices.Sort(local.start)
	local.zero, local.start = slices.Compact(local.zero), slices.Compact(local.start)
	var fs []*ir.Func
	for i := range t.bodies {
		f, err := t.localBody(i, at, parts)
		if err != nil {
			return nil, local, err
		}
		fs = append(fs, f)
	}
	return fs, local, nil
}

// flowPart is a device's shard of a class, and the axes that split it.
type flowPart struct {
	mesh.Range
	axes mesh.Axes
	// joint is whether devices add up, inside the bodies, what a node sums along the class.
	joint bool
}

// first reports whether a device is the first of those that share a class.
func first(at *Place, p flowPart) bool {
	if at.mesh == nil {
		return p.Start == 0
	}
	return at.along(p.axes) == 0
}

// localBody returns a program with every node localized to a device.
func (t *flowTies) localBody(body int, at *Place, parts map[int]flowPart) (*ir.Func, error) {
	f := t.bodies[body]
	b := ir.NewBuilder(f.Name())
	args := make([]*Tensor, len(f.Params()))
	for i, p := range f.Params() {
		args[i] = b.Param("", t.localType(t.value(body, p), p.Type(), parts))
	}
	var failed error
	next := 0
	results := f.Replay(b, args, func(n *ir.Node, in []*Tensor) []*Tensor {
		o, err := t.localNode(body, n, t.rules[body][next], at, parts)
		next++
		if err != nil {
			failed = err
			o = n.Op().(Op)
		}
		return t.complete(body, n, b.Apply(o, in), at, parts)
	})
	if failed != nil {
		return nil, failed
	}
	return b.Build(results...)
}

// complete adds up over devices what a node has summed along the classes that they share.
func (t *flowTies) complete(
	body int,
	n *ir.Node,
	out []*Tensor,
	at *Place,
	parts map[int]flowPart,
) []*Tensor {
	out = slices.Clone(out)
	for _, class := range slices.Sorted(maps.Keys(parts)) {
		p := parts[class]
		if !p.joint || at.mesh.Count(p.axes) == 1 || !slices.ContainsFunc(n.In(), func(v *Tensor) bool {
			return t.has(t.value(body, v), class)
		}) {
			continue
		}
		for i, v := range n.Out() {
			if !t.has(t.value(body, v), class) {
				out[i] = AllReduce(out[i], at.mesh, p.axes, mesh.Sum)
			}
		}
	}
	return out
}

func (t *flowTies) localType(h handle, whole Type, parts map[int]flowPart) Type {
	local := Type{DType: whole.DType, Shape: whole.Shape.Clone()}
	for d := range h.rank {
		if p, ok := parts[t.root(h.base+d)]; ok {
			local.Shape[d] = p.Size
		}
	}
	return local
}

// localNode returns a node's op localized to a device.
func (t *flowTies) localNode(body int, n *ir.Node, p *mesh.Parsed, at *Place, parts map[int]flowPart) (Op,
	error) {
	o := n.Op().(Op)
	if p == nil {
		return o, nil
	}
	ranges, assign := make([]mesh.Range, len(p.Factors)), make(mesh.Assignment, len(p.Factors))
	for f, x := range p.Factors {
		ranges[f] = mesh.Range{Size: x.Size}
	}
	for k, v := range slices.Concat(n.In(), n.Out()) {
		h := t.value(body, v)
		for d := range h.rank {
			part, ok := parts[t.root(h.base+d)]
			if names := p.Tensor(k)[d]; ok && len(names) == 1 {
				ranges[p.Index(names[0])], assign[p.Index(names[0])] = part.Range, part.axes
			}
		}
	}
	here := NewPart(p, ranges, typesOfValues(n.In()), typesOfValues(n.Out()))
	here.Assign, here.mesh, here.device = assign, at.mesh, at.device
	return Localize(o, here)
}
