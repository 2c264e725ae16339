package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// Direction is a straight line through some tensors, and the number of derivatives along it.
type Direction struct {
	// Along is the velocity of each tensor; nil for a tensor that is constant.
	Along []*Tensor
	// Order is the highest derivative.
	Order int
}

// Taylor returns the derivatives of ys along lines through the xs that they were computed from, in forward
// mode: for each direction, by order from 0 on, those of each y. The series of all values between xs and ys
// are computed together, so the cost of an order grows with the order and does not double as in Grad of Grad.
// The results are computed by ordinary ops, so they can be differentiated again, forward or backward. Eager
// xs must be tracked.
func Taylor(ys, xs []*Tensor, ds ...Direction) [][][]*Tensor {
	bad := badSeries(ys, xs, ds)
	lines := make([]jet, len(ds))
	for i, d := range ds {
		if lines[i] = (jet{}); bad == nil {
			lines[i].start(xs, d.Along)
		}
	}
	if bad == nil {
		if gone := followAll(lines, ds, ys, xs); gone != nil {
			bad = ir.Invalid(ys[0].Scope(), releasedError(gone))
		}
	}
	all := make([][][]*Tensor, len(ds))
	for i, d := range ds {
		for k := range max(d.Order, 0) + 1 {
			all[i] = append(all[i], lines[i].derivatives(ys, k, bad))
		}
	}
	return all
}

// start sets the series of xs, which move along a straight line.
func (j jet) start(xs, along []*Tensor) {
	for i, x := range xs {
		j[x] = &series{value: x, next: func(k int) *Tensor {
			if k == 1 {
				return along[i]
			}
			return nil
		}}
	}
}

// derivatives returns the derivatives of ys of order k, or bad if that is not nil.
func (j jet) derivatives(ys []*Tensor, k int, bad *Tensor) []*Tensor {
	out := make([]*Tensor, len(ys))
	for i, y := range ys {
		if out[i] = bad; bad == nil {
			out[i] = j.of(y).full(k)
		}
	}
	return out
}

// followAll computes series from xs to ys along all lines at once.
func followAll(lines []jet, ds []Direction, ys, xs []*Tensor) (gone *ir.Node) {
	w := walk{view: keepHistory, barrier: true}
	w.find(ys, xs)
	if w.released != nil {
		return w.released
	}
	if m := matchMLP(w.order, ys, xs, ds); m != nil {
		m.follow(lines, ds)
		return nil
	}
	for _, n := range slices.Backward(w.order) {
		if o, ok := n.Op().(lineDeriver); ok {
			o.alongLines(n, lines, ds)
		}
		for i, j := range lines {
			j.visit(n, ds[i].Order)
		}
	}
	return nil
}

// badSeries returns an invalid tensor if the arguments of Taylor are invalid.
func badSeries(ys, xs []*Tensor, ds []Direction) *Tensor {
	for _, t := range append(slices.Clone(ys), xs...) {
		if t.Err() != nil {
			return t
		}
	}
	if bad := untracked(xs); bad != nil {
		return bad
	}
	for i, d := range ds {
		if err := d.fits(xs); err != nil {
			return ir.Invalid(xs[0].Scope(), &ir.Error{Pos: ir.Caller(), Op: "taylor",
				Err: fmt.Errorf("direction %d: %w", i, err)})
		}
	}
	return nil
}

// fits checks a direction against the tensors.
func (d Direction) fits(xs []*Tensor) error {
	if d.Order < 0 {
		return fmt.Errorf("order is %d: want 0 or more", d.Order)
	}
	if len(d.Along) != len(xs) {
		return fmt.Errorf("got %d velocities for %d tensors", len(d.Along), len(xs))
	}
	for i, v := range d.Along {
		switch {
		case v == nil:
		case v.Err() != nil:
			return v.Err()
		case !v.Type().Equal(xs[i].Type()) || !v.DType().IsFloat():
			return fmt.Errorf("velocity %d is %v: want floats of the tensor's type %v", i, v.Type(), xs[i].Type())
		}
	}
	return nil
}

// series holds the derivatives of a value along a line. Each is computed from those of lower order when it is
// first requested. A rule that refers to its own series, such as y' = 1 - y², thus becomes a recurrence.
type series struct {
	value *Tensor
	// known holds the derivatives from the first on that have been requested so far; nil is zero.
	known []*Tensor
	// next computes derivative k; nil for a constant.
	next func(k int) *Tensor
}

// at returns derivative k; nil is zero.
func (s *series) at(k int) *Tensor {
	if k == 0 {
		return s.value
	}
	if s.next == nil {
		return nil
	}
	for len(s.known) < k {
		s.known = append(s.known, s.next(len(s.known)+1))
	}
	return s.known[k-1]
}

// full returns derivative k as a tensor, even if it is zero.
func (s *series) full(k int) *Tensor {
	if d := s.at(k); d != nil {
		return d
	}
	return ZerosLike(s.value)
}

// velocity returns the series of the first derivative as a new leaf.
func (s *series) velocity() *series {
	return &series{value: separate([]*Tensor{s.full(1)})[0], next: func(k int) *Tensor { return s.at(k + 1) }}
}

// jet holds the series of values along one line; a value without a series is constant.
type jet map[*Tensor]*series

func (j jet) of(v *Tensor) *series {
	if s := j[v]; s != nil {
		return s
	}
	return &series{value: v}
}

func (j jet) all(vs []*Tensor) []*series {
	out := make([]*series, len(vs))
	for i, v := range vs {
		out[i] = j.of(v)
	}
	return out
}

// follow computes the series of every value between xs, which have theirs, and ys.
func (j jet) follow(ys, xs []*Tensor) {
	w := walk{view: keepHistory, barrier: true}
	w.find(ys, xs)
	for _, n := range slices.Backward(w.order) {
		j.visit(n, 0)
	}
}

// visit computes the series of n's results.
func (j jet) visit(n *ir.Node, order int) {
	in := j.all(n.In())
	if !slices.ContainsFunc(in, moves) {
		return
	}
	if b, ok := n.Out()[0].Scope().(*ir.Builder); ok && order > 0 {
		defer b.At(n.Pos())()
	}
	out := make([]*series, len(n.Out()))
	for i, v := range n.Out() {
		if out[i] = j[v]; out[i] == nil { // a target of the walk has its own
			out[i] = &series{value: v}
		}
	}
	rule := j.rule(n, in, out)
	if rule == nil || j.known(n) {
		return
	}
	rule = once(rule)
	var made []*series
	for i, s := range out { // all before any: rules may use every result
		if v := n.Out()[i]; v.DType().IsFloat() && j[v] == nil {
			s.next = func(k int) *Tensor { return rule(k)[i] }
			j[v] = s
			made = append(made, s)
		}
	}
	for _, s := range made {
		s.at(order)
	}
}

// known reports whether all results of n have their series.
func (j jet) known(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Out(), func(v *Tensor) bool { return j[v] == nil })
}

func moves(s *series) bool { return s.next != nil }

// once caches the results of a rule.
func once(rule func(k int) []*Tensor) func(k int) []*Tensor {
	known := map[int][]*Tensor{}
	return func(k int) []*Tensor {
		if _, ok := known[k]; !ok {
			known[k] = rule(k)
		}
		return known[k]
	}
}
