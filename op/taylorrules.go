package op

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
)

// expander is implemented by ops with a shorter formula for their derivatives than the generic one: expand
// returns derivative k ≥ 1 of the only result. Nil is zero.
type expander interface {
	expand(k int, in []*series, out *series) *Tensor
}

// lineDeriver is implemented by ops with a single op that computes their derivatives along all lines at once.
type lineDeriver interface {
	alongLines(n *ir.Node, lines []jet, ds []Direction)
}

// elementwise is implemented by elementwise ops of one operand, whose VJP is also their directional
// derivative.
type elementwise interface{ elementwise() }

// flat is implemented by ops without a gradient because it is zero.
type flat interface{ flat() }

func (unary) elementwise()             {}
func (constantAlmostEverywhere) flat() {}
func (stopGradient) flat()             {}

// rule returns a function that computes the derivatives of n's results, by order, from those of its operands.
// An op that is linear in the changing operands is applied to derivatives; a composite follows its
// definition; an elementwise op, or one with only a VJP, follows the differential equation y' = J·x'. Nil
// means that the results are constant.
func (j jet) rule(n *ir.Node, in, out []*series) func(k int) []*Tensor {
	o := n.Op().(Op)
	if no, ok := o.(Undifferentiable); ok {
		return refused(n, no)
	}
	if e, ok := o.(expander); ok {
		return func(k int) []*Tensor { return []*Tensor{e.expand(k, in, out[0])} }
	}
	if groups, ok := movingGroups(o, in); ok {
		return products{o, in, groups, len(out)}.derivative
	}
	if c, ok := o.(Composite); ok {
		return j.byParts(c, in)
	}
	if _, ok := o.(elementwise); ok {
		return j.byElements(o, in, out)
	}
	return j.transposed(o, in, out)
}

// refused returns the rule of an op without a gradient: nil if that is zero, an error if it is unknown.
func refused(n *ir.Node, no Undifferentiable) func(k int) []*Tensor {
	if _, ok := no.(flat); ok {
		return nil
	}
	out := make([]*Tensor, len(n.Out()))
	floats := false
	for i, v := range n.Out() {
		floats = floats || v.DType().IsFloat()
		out[i] = ir.Invalid(v.Scope(), &ir.Error{Pos: n.Pos(), Op: "taylor",
			Err: fmt.Errorf("%s has no derivative: %s", n.Op().Name(), no.NoGradient())})
	}
	if !floats {
		return nil
	}
	return func(int) []*Tensor { return out }
}

// movingGroups returns the groups of operands in which an op is linear and of which some change, if no other
// operand changes.
func movingGroups(o Op, in []*series) (groups [][]int, ok bool) {
	l, ok := o.(Multilinear)
	if !ok {
		return nil, false
	}
	covered := map[int]bool{}
	for _, g := range l.Linear() {
		if len(g) == 0 {
			for i := range in {
				g = append(g, i)
			}
		}
		moving := false
		for _, i := range g {
			moving = moving || moves(in[i])
			covered[i] = true
		}
		if moving {
			groups = append(groups, g)
		}
	}
	for i, s := range in {
		if moves(s) && !covered[i] {
			return nil, false
		}
	}
	return groups, true
}

// products is an op that is linear in each of several groups of operands.
type products struct {
	o      Op
	in     []*series
	groups [][]int
	out    int
}

// derivative applies Leibniz's rule: the sum over all ways to distribute k derivatives among the groups.
func (p products) derivative(k int) []*Tensor {
	sum := make([]*Tensor, p.out)
	p.share(k, make([]int, 0, len(p.groups)), 1, func(orders []int, ways float64) {
		args := make([]*Tensor, len(p.in))
		for i, s := range p.in {
			args[i] = s.value
		}
		for g, order := range orders {
			zero := true
			for _, i := range p.groups[g] {
				args[i] = p.in[i].full(order)
				zero = zero && p.in[i].at(order) == nil
			}
			if zero {
				return
			}
		}
		for i, y := range ir.Apply(p.o, args...)[:p.out] {
			sum[i] = sumOf(sum[i], times(y, ways))
		}
	})
	return sum
}

// share calls f for each way to divide k into one number for each group, with its multiplicity.
func (p products) share(k int, orders []int, ways float64, f func(orders []int, ways float64)) {
	if len(orders) == len(p.groups)-1 {
		f(append(orders, k), ways)
		return
	}
	for i := range k + 1 {
		p.share(k-i, append(orders, i), ways*binomial(k, i), f)
	}
}

func binomial(n, k int) float64 {
	b := 1.0
	for i := range k {
		b = b * float64(n-i) / float64(i+1)
	}
	return b
}

// sumOf returns x + y, where nil is zero.
func sumOf(x, y *Tensor) *Tensor {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	return Add(x, y)
}

// times returns c·x, where nil is zero.
func times(x *Tensor, c float64) *Tensor {
	if x == nil || c == 1 || !x.DType().IsFloat() {
		return x
	}
	return MulScalar(x, c)
}

// byParts returns the rule of a composite from its definition.
func (j jet) byParts(c Composite, in []*series) func(k int) []*Tensor {
	leaves := separate(values(in))
	var moving []*Tensor
	for i, s := range in {
		if moves(s) {
			j[leaves[i]] = &series{value: leaves[i], next: s.at}
			moving = append(moving, leaves[i])
		}
	}
	return j.through(c.Decompose(leaves), moving, 0)
}

// through returns the derivatives of ys, computed from xs: that of order k is the ys' own derivative of order
// k-less.
func (j jet) through(ys, xs []*Tensor, less int) func(k int) []*Tensor {
	j.follow(ys, xs)
	of := j.all(ys)
	return func(k int) []*Tensor {
		out := make([]*Tensor, len(of))
		for i, s := range of {
			out[i] = s.at(k - less)
		}
		return out
	}
}

// byElements returns the rule y' = VJP(x, y, x').
func (j jet) byElements(o Op, in, out []*series) func(k int) []*Tensor {
	return later(func() func(k int) []*Tensor {
		v := in[0].velocity()
		j[v.value] = v
		x, y := []*Tensor{in[0].value}, []*Tensor{out[0].value}
		slope := o.VJP(x, y, []*Tensor{v.value})
		if slope[0] == nil {
			return func(int) []*Tensor { return slope }
		}
		return j.through(slope, []*Tensor{x[0], y[0], v.value}, 1)
	})
}

// later builds a rule when it is first used, when the results' own series exist.
func later(make func() func(k int) []*Tensor) func(k int) []*Tensor {
	var rule func(k int) []*Tensor
	return func(k int) []*Tensor {
		if rule == nil {
			rule = make()
		}
		return rule(k)
	}
}

// transposed returns the rule y' = J·x', where J is the transpose of the VJP, which is linear in its
// cotangents.
func (j jet) transposed(o Op, in, out []*series) func(k int) []*Tensor {
	return later(func() func(k int) []*Tensor {
		xs, ys := values(in), values(out)
		from := append(append([]*Tensor{}, xs...), ys...)
		us, floats := make([]*Tensor, len(ys)), []*Tensor{}
		for i, y := range ys {
			if y.DType().IsFloat() {
				us[i] = separate([]*Tensor{ZerosLike(y)})[0]
				floats = append(floats, us[i])
			}
		}
		var back, velocities []*Tensor
		for i, d := range o.VJP(xs, ys, us) {
			if d != nil && moves(in[i]) {
				v := in[i].velocity()
				j[v.value] = v
				back, velocities = append(back, d), append(velocities, v.value)
			}
		}
		forward := gradient(back, velocities, floats, walk{view: keepHistory, barrier: true})
		rule := j.through(forward, append(from, velocities...), 1)
		return func(k int) []*Tensor { return among(rule(k), us) }
	})
}

// among places the derivatives of float results among those of all results.
func among(ds, us []*Tensor) []*Tensor {
	out := make([]*Tensor, len(us))
	for i, u := range us {
		if u != nil {
			out[i], ds = ds[0], ds[1:]
		}
	}
	return out
}

func values(ss []*series) []*Tensor {
	out := make([]*Tensor, len(ss))
	for i, s := range ss {
		out[i] = s.value
	}
	return out
}

// broadcastLike broadcasts x to y's shape; nil stays zero.
func broadcastLike(x, y *Tensor) *Tensor {
	if x == nil || x.Err() != nil || x.Shape().Equal(y.Shape()) {
		return x
	}
	return Expand(x, y.Shape()...)
}
