package xla

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// LowerConfig says for what a program is written.
type LowerConfig struct {
	Target string
	Donate []int
}

// Lower is f as StableHLO. Donated parameters are paired with results whose memory theirs becomes.
func Lower(f *ir.Func, c LowerConfig) (string, error) {
	w := hlo.NewWriter()
	refs := make([]hlo.Ref, f.NumValues())
	for _, p := range f.Params() {
		refs[p.ID()] = w.Param(hloType(p.Type()))
	}
	pairs := pairDonated(f, c.Donate)
	for _, i := range c.Donate {
		_ = pairs[i]
	}
	for _, n := range f.Nodes() {
		if err := lowerNode(w, n, refs); err != nil {
			return "", err
		}
	}
	results := make([]hlo.Ref, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = refs[v.ID()]
	}
	return w.Module(f.Name(), results...), nil
}

func lowerNode(w *hlo.Writer, n *ir.Node, refs []hlo.Ref) error {
	in, out := make([]hlo.Ref, len(n.In())), make([]ir.Type, len(n.Out()))
	for i, v := range n.In() {
		in[i] = refs[v.ID()]
	}
	for i, v := range n.Out() {
		out[i] = v.Type()
	}
	for i, r := range n.Op().(op.Op).Emit(w, in, out) {
		refs[n.Out()[i].ID()] = r
	}
	if err := w.Err(); err != nil {
		return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
	}
	return nil
}

// pairDonated is, for each parameter, the result that takes over its memory, or -1: the first of its type that no earlier
// parameter took.
func pairDonated(f *ir.Func, donate []int) []int {
	pairs := make([]int, len(f.Params()))
	for i := range pairs {
		pairs[i] = -1
	}
	taken := make([]bool, len(f.Results()))
	for _, i := range donate {
		for r, v := range f.Results() {
			if !taken[r] && v.Type().Equal(f.Params()[i].Type()) {
				pairs[i], taken[r] = r, true
				break
			}
		}
	}
	return pairs
}

func hloType(t ir.Type) hlo.Type { return hlo.Type{DType: t.DType, Shape: t.Shape} }
