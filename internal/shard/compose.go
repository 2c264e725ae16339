package shard

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Compose returns how shardings propagate from the parameters of a program to its results, as if it were one
// op: factors that meet in a value between two ops are united, and their cost of splitting is the largest one
// anywhere. It fails if a dim in between consists of different factors.
func Compose(f *ir.Func, r Reach) (*Spread, error) {
	c := &composer{of: make([][][]int, f.NumValues()), parts: map[int][]int{}}
	for _, n := range f.Nodes() {
		if err := c.add(n, r); err != nil {
			return nil, err
		}
	}
	return c.spread(f), nil
}

// composer unites factors of ops.
type composer struct {
	factors []Factor
	// parent is a union-find forest: factors with one root are the same.
	parent []int
	// parts holds the factors that a factor turned out to consist of.
	parts map[int][]int
	// of holds the factors of each value's dims; nil for a value that no op has touched.
	of [][][]int
}

func (c *composer) root(f int) int {
	for c.parent[f] != f {
		f = c.parent[f]
	}
	return f
}

func (c *composer) add(n *ir.Node, r Reach) error {
	in, operands := describe(n.In())
	out, results := describe(n.Out())
	s, err := SpreadOf(n.Op().(op.Op), in, out, r)
	if err != nil {
		return err
	}
	base := len(c.factors)
	for i, f := range s.Factors {
		c.factors, c.parent = append(c.factors, f), append(c.parent, base+i)
	}
	for t, v := range slices.Concat(operands, results) {
		for d, factors := range s.Dims[t] {
			own := make([]int, len(factors))
			for i, f := range factors {
				own[i] = base + f
			}
			if err := c.unite(v, d, len(s.Dims[t]), own); err != nil {
				return err
			}
		}
	}
	return nil
}

// flat returns a dim's factors, each by its root and split into its parts.
func (c *composer) flat(factors []int) []int {
	var list []int
	for _, f := range factors {
		f = c.root(f)
		if parts, ok := c.parts[f]; ok {
			list = append(list, c.flat(parts)...)
		} else {
			list = append(list, f)
		}
	}
	return list
}

// unite equates the factors of a dim with those that it already has.
func (c *composer) unite(v, d, rank int, own []int) error {
	if c.of[v] == nil {
		c.of[v] = make([][]int, rank)
	}
	have, own := c.flat(c.of[v][d]), c.flat(own)
	switch {
	case len(have) == 0:
		c.of[v][d] = own
		return nil
	case len(own) == 0:
		return nil
	case len(have) == 1 && len(own) > 1:
		c.parts[have[0]] = own
		return nil
	case len(own) == 1 && len(have) > 1:
		c.parts[own[0]] = have
		return nil
	case len(own) != len(have):
		return fmt.Errorf("value %d: dim %d is made of %d and of %d factors", v, d, len(have), len(own))
	}
	for i := range own {
		a, b := c.root(have[i]), c.root(own[i])
		if a != b {
			c.parent[b] = a
			c.factors[a].Kind = max(c.factors[a].Kind, c.factors[b].Kind)
			if c.factors[b].fixed {
				c.factors[a].Size, c.factors[a].fixed = c.factors[b].Size, true
			}
		}
	}
	return nil
}

// spread keeps the factors of parameters and results.
func (c *composer) spread(f *ir.Func) *Spread {
	s := &Spread{Operands: len(f.Params())}
	number := map[int]int{}
	types, ids := describe(slices.Concat(f.Params(), f.Results()))
	for i, v := range ids {
		dims := make([][]int, len(types[i].Shape))
		for d := range dims {
			for _, x := range c.flat(c.dim(v, d)) {
				if _, ok := number[x]; !ok {
					number[x] = len(s.Factors)
					s.Factors = append(s.Factors, c.factors[x])
				}
				dims[d] = append(dims[d], number[x])
			}
		}
		s.Dims = append(s.Dims, dims)
	}
	s.classify(types)
	return s
}

func (c *composer) dim(v, d int) []int {
	if c.of[v] == nil {
		return nil
	}
	return c.of[v][d]
}
