package branches

import (
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// fused fuses a device's program between messages. A fused loop across a message would wait for it, or delay
// it, and so change the order of messages on this device alone.
func fused(c executor.Config) func(*ir.Func) (*ir.Func, error) {
	return func(f *ir.Func) (*ir.Func, error) {
		defer fault.Pass("branches", f)
		b := ir.NewBuilder(f.Name())
		w := &rewriter{f: f, b: b, values: make([]*ir.Value, f.NumValues()), last: lastUses(f)}
		copy(w.values, b.ParamsOf(f))
		begin := 0
		for i, n := range f.Nodes() {
			if _, ok := n.Op().(op.Messenger); !ok {
				continue
			}
			if err := w.between(begin, i, c.OptimizeLocal); err != nil {
				return nil, err
			}
			w.apply(n)
			begin = i + 1
		}
		if err := w.between(begin, len(f.Nodes()), c.OptimizeLocal); err != nil {
			return nil, err
		}
		var results []*ir.Value
		for _, v := range f.Results() {
			results = append(results, w.values[v.ID()])
		}
		return b.Build(results...)
	}
}

// lastUses returns by value the last node that reads it; results are read after all nodes.
func lastUses(f *ir.Func) []int {
	last := make([]int, f.NumValues())
	for i, n := range f.Nodes() {
		for _, v := range n.In() {
			last[v.ID()] = i
		}
	}
	for _, v := range f.Results() {
		last[v.ID()] = len(f.Nodes())
	}
	return last
}

// rewriter builds a new program and maps the old values to the new ones.
type rewriter struct {
	f      *ir.Func
	b      *ir.Builder
	values []*ir.Value
	last   []int
}

// apply copies a node unchanged.
func (w *rewriter) apply(n *ir.Node) {
	defer w.b.At(n.Pos())()
	in := make([]*ir.Value, len(n.In()))
	for k, v := range n.In() {
		in[k] = w.values[v.ID()]
	}
	for k, v := range w.b.Apply(n.Op(), in) {
		w.values[n.Out()[k].ID()] = v
	}
}

// between rewrites a range of nodes with a pass, as a program of its own.
func (w *rewriter) between(begin, end int, rewrite func(*ir.Func) (*ir.Func, error)) error {
	if end-begin < 2 {
		for _, n := range w.f.Nodes()[begin:end] {
			w.apply(n)
		}
		return nil
	}
	part := &rewriter{f: w.f, b: ir.NewBuilder(w.f.Name()), values: make([]*ir.Value, w.f.NumValues())}
	var args, results, given []*ir.Value
	for _, n := range w.f.Nodes()[begin:end] {
		for _, v := range n.In() {
			if part.values[v.ID()] == nil {
				part.values[v.ID()] = part.b.Param(v.Name(), v.Type())
				args = append(args, w.values[v.ID()])
			}
		}
		part.apply(n)
		for _, v := range n.Out() {
			if w.last[v.ID()] >= end {
				results, given = append(results, part.values[v.ID()]), append(given, v)
			}
		}
	}
	f, err := part.b.Build(results...)
	if err == nil {
		f, err = rewrite(f)
	}
	if err != nil {
		return err
	}
	for k, v := range f.Replay(w.b, args, nil) {
		w.values[given[k].ID()] = v
	}
	return nil
}
