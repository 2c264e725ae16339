package pass

import (
	"fmt"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Join merges products that share one operand and differ in a parameter into one: queries, keys and values;
// gate and up. Their parameters are concatenated in the program, so that nothing changes for their owner. Run
// it before differentiation: then the backward pass has one product instead of several, too, and no sum of
// their results.
func Join(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass("join", f)
	groups := joinGroups(f)
	done := map[*ir.Node][]*ir.Value{}
	env := map[*ir.Value]*ir.Value{}
	b := ir.NewBuilder(f.Name())
	args := b.ParamsOf(f)
	for i, p := range f.Params() {
		env[p] = args[i]
	}
	results := f.Replay(b, args, func(n *ir.Node, in []*ir.Value) []*ir.Value {
		if out, ok := done[n]; ok {
			return out
		}
		g := groups[n]
		if g == nil {
			out := b.Apply(n.Op(), in)
			for i, v := range n.Out() {
				env[v] = out[i]
			}
			return out
		}
		for i, out := range g.apply(b, in, env) {
			done[g.nodes[i]] = []*ir.Value{out}
		}
		return done[n]
	})
	return b.Build(results...)
}

// joinGroup is a set of nodes that become one.
type joinGroup struct {
	nodes                []*ir.Node
	operand, dim, result int
}

// joinGroups finds nodes with the same op and operands except for a parameter, keyed by the first.
func joinGroups(f *ir.Func) map[*ir.Node]*joinGroup {
	numbers := map[*ir.Value]int{}
	byKey, first := map[string]*joinGroup{}, map[*ir.Node]*joinGroup{}
	var order []*joinGroup
	at := map[*ir.Node]int{}
	for i, n := range f.Nodes() {
		at[n] = i
		j, ok := n.Op().(op.Joiner)
		if !ok {
			continue
		}
		operand, dim, result, ok := j.Join(ir.TypesOf(n.In()))
		if !ok || !isWeight(n.In()[operand]) {
			continue
		}
		rest := append([]*ir.Value{}, n.In()[:operand]...)
		key := fmt.Sprint(nodeKey(n, append(rest, n.In()[operand+1:]...), numbers), n.In()[operand].DType())
		g := byKey[key]
		if g == nil {
			g = &joinGroup{operand: operand, dim: dim, result: result}
			byKey[key] = g
			order = append(order, g)
		}
		if cut := n.In()[operand].Node(); cut != nil && len(g.nodes) > 0 && at[cut] > at[g.nodes[0]] {
			continue // its weight is not computed yet at the group's position
		}
		g.nodes = append(g.nodes, n)
	}
	for _, g := range order {
		if len(g.nodes) > 1 {
			first[g.nodes[0]] = g
		}
	}
	return first
}

// isWeight reports whether a value is a parameter, or a slice of
// one.
func isWeight(v *ir.Value) bool {
	n := v.Node()
	return n == nil || op.Cuts(n.Op()) && n.In()[0].Node() == nil
}

// FusedParams is a group of parameters that Join would concatenate, by index.
type FusedParams struct {
	Params []int
	Dim    int
}

// FusableParams returns the groups that consist only of the first weights parameters, each of which is in no
// other group.
func FusableParams(f *ir.Func, weights int) []FusedParams {
	number := map[*ir.Value]int{}
	for i, p := range f.Params()[:weights] {
		number[p] = i
	}
	var list []FusedParams
	taken := map[int]bool{}
	groups := joinGroups(f)
	for _, n := range f.Nodes() {
		g := groups[n]
		if g == nil {
			continue
		}
		j, fresh := FusedParams{Dim: g.dim}, true
		for _, of := range g.nodes {
			i, ok := number[of.In()[g.operand]]
			if fresh = fresh && ok && !taken[i]; ok {
				j.Params = append(j.Params, i)
				taken[i] = true
			}
		}
		if fresh {
			list = append(list, j)
		}
	}
	return list
}

// apply computes the group as one node and returns the results of all its nodes.
func (g *joinGroup) apply(b *ir.Builder, in []*ir.Value, env map[*ir.Value]*ir.Value) []*ir.Value {
	parts, sizes := make([]*ir.Value, len(g.nodes)), make([]int, len(g.nodes))
	for i, n := range g.nodes {
		parts[i] = env[n.In()[g.operand]]
		sizes[i] = n.Out()[0].Dim(g.result)
	}
	joined := append([]*ir.Value{}, in...)
	joined[g.operand] = op.Concat(parts, g.dim)
	return op.Split(b.Apply(g.nodes[0].Op(), joined)[0], g.result, sizes...)
}
