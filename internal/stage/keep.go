package stage

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Recompute is what a backward pass computes again in place of keeping it.
type Recompute uint8

// The policies. Whatever costs nothing to compute again, views and constants and what weights alone decide,
// never is kept.
const (
	// RecomputeNone keeps all that gradients need.
	RecomputeNone Recompute = iota
	// RecomputeSelective keeps the results of contractions: products, attention. What is between them is
	// computed again.
	RecomputeSelective
	// RecomputeFull keeps what passes between layers only.
	RecomputeFull
)

// keeper decides by node.
type keeper struct {
	policy func(layer string) Recompute
	// learned is the values that weights alone decide, layer what the last mark before each node says.
	constant []bool
	layer    []string
	between  func(mark string) bool
}

// NewKeep returns a policy for the nodes of a joint program. weights is its first parameters; between says
// which marks stand between layers; policy is asked with the mark of the layer that a node is in.
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

// contracts reports whether a node sums over what two of its operands share: what it does takes long and its
// results are small beside it.
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
