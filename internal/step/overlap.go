package step

import (
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// inFlight is the number of gathers of weights that are in flight at once: enough that the next product's has
// arrived when it is needed, few enough that their memory does not matter.
const inFlight = 2

// overlap makes a device's program start its collectives as soon as their operands are available and wait for
// them when their results are first used; the ops in between overlap. Collectives on parameters, which are
// available from the start, are started ahead of their turn: weights that ZeRO shards arrive before they are
// needed.
//
// which, if set, selects the collectives that are started, by the IDs of their results. All devices of a
// group start in the same order, because they run the same program except for sizes.
func overlap(f *ir.Func, which []bool) (*ir.Func, error) {
	defer fault.Pass("overlap", f)
	b := ir.NewBuilder(f.Name())
	o := &overlapper{b: b, env: make([]*ir.Value, f.NumValues()), started: make([]*ir.Value, f.NumValues())}
	for i, v := range b.ParamsOf(f) {
		o.env[i] = v
	}
	o.unused, o.which = unused(f), which
	for _, n := range f.Nodes() {
		if o.starts(n) && n.In()[0].Node() == nil {
			o.early = append(o.early, n)
		}
	}
	for range inFlight {
		o.startNext()
	}
	for _, n := range f.Nodes() {
		o.node(n)
	}
	results := make([]*ir.Value, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = o.value(v)
	}
	return b.Build(results...)
}

type overlapper struct {
	b *ir.Builder
	// env maps the old program's IDs to values of the new one, started those that have to be waited for.
	env, started []*ir.Value
	// early holds the collectives on parameters that have not been started, in order.
	early []*ir.Node
	// unused marks the values of the old program that nothing reads.
	unused []bool
	// which, if set, marks those that are started.
	which []bool
}

// starts reports whether a node is a collective that is started and waited for. One whose result is unused
// would never be waited for, and its memory would be reused while others still write to it: it runs
// synchronously.
func (o *overlapper) starts(n *ir.Node) bool {
	_, ok := n.Op().(op.Starter)
	id := n.Out()[0].ID()
	return ok && !o.unused[id] && (o.which == nil || o.which[id])
}

// unused returns, by ID, the values that nothing reads and that are not returned.
func unused(f *ir.Func) []bool {
	list := slices.Repeat([]bool{true}, f.NumValues())
	for _, n := range f.Nodes() {
		for _, v := range n.In() {
			list[v.ID()] = false
		}
	}
	for _, v := range f.Results() {
		list[v.ID()] = false
	}
	return list
}

func (o *overlapper) node(n *ir.Node) {
	if o.starts(n) {
		if n.In()[0].Node() != nil {
			o.start(n)
		}
		return
	}
	in := make([]*ir.Value, len(n.In()))
	for i, v := range n.In() {
		in[i] = o.value(v)
	}
	defer o.b.At(n.Pos())()
	for i, v := range o.b.Apply(n.Op(), in) {
		o.env[n.Out()[i].ID()] = v
	}
}

// start begins a collective.
func (o *overlapper) start(n *ir.Node) {
	source := o.value(n.In()[0])
	defer o.b.At(n.Pos())()
	o.started[n.Out()[0].ID()] = o.b.Apply(n.Op().(op.Starter).Started(), []*ir.Value{source})[0]
}

func (o *overlapper) startNext() {
	if len(o.early) > 0 {
		o.start(o.early[0])
		o.early = o.early[1:]
	}
}

// value returns v in the new program, waited for if need be.
func (o *overlapper) value(v *ir.Value) *ir.Value {
	id := v.ID()
	if o.env[id] != nil {
		return o.env[id]
	}
	for o.started[id] == nil { // its turn has not come: those before it are needed later than it is
		o.startNext()
	}
	n := v.Node()
	source := o.value(n.In()[0])
	restore := o.b.At(n.Pos())
	o.env[id] = op.Wait(o.started[id], source)
	restore()
	if n.In()[0].Node() == nil {
		o.startNext()
	}
	return o.env[id]
}
