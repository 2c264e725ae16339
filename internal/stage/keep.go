package stage

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Recompute is the recomputation policy of a backward pass.
type Recompute uint8

// Policies. Values that cost nothing to recompute, such as views, constants and what depends on weights
// alone, are never kept.
const (
	// RecomputeNone keeps everything that gradients need.
	RecomputeNone Recompute = iota
	// RecomputeSelective keeps the results of contractions: products, attention. The ops between them are
	// recomputed.
	RecomputeSelective
	// RecomputeFull keeps only the hidden states between layers.
	RecomputeFull
)

// keeper decides for each node.
type keeper struct {
	policy func(layer string) Recompute
	// constant marks values that depend on weights alone, layer is the last mark before each node.
	constant []bool
	layer    []string
	between  func(mark string) bool
}

// NewKeep returns a policy for the nodes of a joint program. weights is the number of its first parameters;
// between reports which marks are between layers; policy is called with the mark of the layer that a node is
// in.
func NewKeep(f *ir.Func, weights int, between func(mark string) bool,
	policy func(layer string) Recompute) Keep {
	k := &keeper{policy: policy, between: between, constant: make([]bool, f.NumValues()),
		layer: make([]string, f.NumValues())}
	for i := range weights {
		k.constant[i] = true
	}
	last := ""
	for _, n := range f.Nodes() {
		if name, ok := op.Marked(n); ok && between(name) {
			last = name
		}
		fixed := true
		for _, v := range n.In() {
			fixed = fixed && k.constant[v.ID()]
		}
		for _, v := range n.Out() {
			k.constant[v.ID()], k.layer[v.ID()] = fixed, last
		}
	}
	return k.keep
}

func (k *keeper) keep(n *ir.Node) bool {
	v := n.Out()[0]
	if k.constant[v.ID()] && !contracts(n) {
		return false
	}
	policy := k.policy(k.layer[v.ID()])
	if name, ok := op.Marked(n); ok && policy != RecomputeNone {
		return k.between(name)
	}
	if _, view := n.Op().(op.Aliaser); view {
		return false
	}
	switch policy {
	case RecomputeSelective:
		return contracts(n)
	case RecomputeFull:
		return false
	}
	return true
}

// contracts reports whether a node sums over a factor that two of its operands share: it is expensive, and
// its results are small in comparison.
func contracts(n *ir.Node) bool {
	var in []ir.Type
	for _, v := range n.In() {
		in = append(in, v.Type())
	}
	rule, err := n.Op().(op.Op).Rule(in).Parse()
	if err != nil {
		return false
	}
	for f := range rule.Factors {
		if !rule.Reduced(f) {
			continue
		}
		operands := 0
		for t := range rule.In {
			if rule.Has(t, f) {
				operands++
			}
		}
		if operands > 1 {
			return true
		}
	}
	return false
}
