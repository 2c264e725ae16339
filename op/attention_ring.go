package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Algorithms of context parallelism: how attention is computed when devices split the sequence.
const (
	// ContextRing keeps queries in place and sends keys and values around the devices. [Liu et al. 2023]
	ContextRing = "ring"
	// ContextUlysses changes the split from the sequence to the heads and back with all-to-alls. It falls back
	// to a ring if the heads of keys do not divide among the devices. [Jacobs et al. 2023]
	ContextUlysses = "ulysses"
	// ContextGather keeps queries in place, all-gathers keys and values, and reduce-scatters their gradients. It
	// sends as many bytes as a ring, in one collective.
	ContextGather = "gather"
)

// checkSequence checks the attributes Context and Zigzag against the shapes.
func (o attention) checkSequence(q, k array.Shape) error {
	switch {
	case !slices.Contains([]string{"", ContextRing, ContextUlysses, ContextGather}, o.Context):
		return fmt.Errorf("context %q: want %s, %s or %s", o.Context, ContextRing, ContextUlysses, ContextGather)
	case o.Zigzag < 0:
		return fmt.Errorf("zigzag of %d parts: want 0 for none or more", o.Zigzag)
	case o.Zigzag == 0:
		return nil
	case q[1] != k[1] || !ZigzagFits(o.Zigzag, q[1]) && q[1] > 0:
		return fmt.Errorf("zigzag of %d parts: %d queries and %d keys: want as many, and a multiple of %d",
			o.Zigzag, q[1], k[1], 2*o.Zigzag)
	case o.Offset != 0 || o.DynamicOffset:
		return fmt.Errorf("zigzag of %d parts: queries begin elsewhere than keys: want no offset", o.Zigzag)
	}
	return nil
}

// seq returns the factor of the queries' sequence in the op's own rule. It must not be split if rows are in
// zigzag order.
func (o attention) seq() string {
	if o.Zigzag > 0 {
		return "s*"
	}
	return "s"
}

// sharedSequence returns how devices may split the sequence: that of queries and keys, which are then split
// the same way, or that of keys alone if the lengths differ.
func (o attention) sharedSequence(q, k array.Shape) (words attentionWords, prefer Preference) {
	prefer = BySize
	if o.Context != "" {
		prefer = Always
	}
	if q[1] != k[1] || o.DynamicOffset {
		return o.words(q, k, "s", "t+", "e*"), prefer
	}
	return o.words(q, k, "s", "s+", "e*"), prefer
}

// CooperativeRule lets devices split the sequence.
func (o attention) CooperativeRule(in []Type) CooperativeRule {
	w, prefer := o.sharedSequence(in[0].Shape, in[1].Shape)
	return CooperativeRule{Prefer: prefer,
		Rule: mesh.Rule(w.q + "," + w.k + "," + w.v + w.extras + "->" + w.out + "," + w.lse + w.notes)}
}

// Cooperate keeps queries in place. Keys and values travel around the ring, and each device accumulates
// attention over the parts that its queries attend to.
func (o attention) Cooperate(at *Place, in []*Tensor) []*Tensor {
	if at.Rule.Index('t') >= 0 {
		return o.joinKeys(at, in)
	}
	if u, ok := newUlysses(at); ok && o.Context == ContextUlysses {
		return u.attend(o, in)
	}
	r := newAttentionRing(o, at, in, 3)
	q := in[0]
	out, lse := emptyAttention(q, in[2])
	step := attentionStep{Causal: o.Causal, Scale: o.scale(at.In[0].Shape), Cap: o.Cap, Window: o.Window,
		Segments: o.Segments, Queries: r.queries}
	for i := range r.steps {
		keys := r.next(i)
		if step.Keys = r.keys(i); r.seen(i) {
			y := ir.Apply(step, slices.Concat([]*Tensor{q, keys[0], keys[1]}, r.segments(keys), []*Tensor{out,
				lse})...)
			out, lse = y[0], y[1]
		}
	}
	return []*Tensor{Cast(out, q.DType()), lse}
}

// CooperativeRule lets devices split the sequence of queries and keys if they have the same length. Otherwise
// the op's own rule splits it.
func (o attentionGrad) CooperativeRule(in []Type) CooperativeRule {
	f := o.forward()
	if q, k := in[0].Shape, in[1].Shape; q[1] != k[1] || o.DynamicOffset {
		return CooperativeRule{}
	}
	w, prefer := f.sharedSequence(in[0].Shape, in[1].Shape)
	return CooperativeRule{Prefer: prefer,
		Rule: mesh.Rule(o.operands(w) + "->" + w.q + "," + w.k + "," + w.v + w.notes)}
}

// Cooperate sends keys and values around the ring together with their gradients, which end at the device that
// owns them.
func (o attentionGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	if u, ok := newUlysses(at); ok && o.Context == ContextUlysses {
		return u.attendBack(o, in)
	}
	f, n := o.forward(), o.fixed()
	r := newAttentionRing(f, at, in, n)
	q, k, v := in[0], in[1], in[2]
	dq, grads := zerosWide(q), []*Tensor{zerosWide(k), zerosWide(v)}
	step := attentionGradStep{Causal: o.Causal, Scale: f.scale(at.In[0].Shape), Cap: o.Cap, Window: o.Window,
		Segments: o.Segments,
		LSEGrad:  o.LSEGrad, Queries: r.queries}
	if r.whole != nil {
		dq, grads = r.scattered(step, q, dq, in[3:n])
		return []*Tensor{Cast(dq, q.DType()), Cast(grads[0], k.DType()), Cast(grads[1], v.DType())}
	}
	for i := range r.steps {
		keys := r.next(i)
		if step.Keys = r.keys(i); r.seen(i) {
			operands := slices.Concat([]*Tensor{q, keys[0], keys[1]}, in[3:n], r.segments(keys), []*Tensor{dq}, grads)
			y := ir.Apply(step, operands...)
			dq, grads = y[0], y[1:]
		}
		if i < r.steps-1 {
			grads = r.pass(grads, 1, i+1)
		}
	}
	if home := len(r.parts) - r.steps + 1; home < len(r.parts) {
		grads = r.pass(grads, home, 0)
	}
	return []*Tensor{Cast(dq, q.DType()), Cast(grads[0], k.DType()), Cast(grads[1], v.DType())}
}

// zerosWide returns zeros in x's shape and in the dtype in which sums of x are accumulated.
func zerosWide(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Full(x.Scope(), x.DType().Compute(), x.Shape(), 0)
}

// joinKeys returns an attention whose keys are split: every device computes with its own keys, and the
// results are merged by their log-sum-exp.
func (o attention) joinKeys(at *Place, in []*Tensor) []*Tensor {
	j := at.joint(1, 1)
	o.Offset += positionShift(at)
	part := ir.Apply(o, in...)
	lse := part[1]
	top := j.max(lse)
	hidden := Equal(lse, hiddenScore(lse))
	weight := Where(hidden, Const(lse, 0), Exp(belowTop(lse, top)))
	sum := j.sum(weight)
	empty := Equal(sum, Const(sum, 0))
	safe := Where(empty, Const(sum, 1), sum)
	rows := Unsqueeze(Transpose(Div(weight, safe), 0, 2, 1), 3)
	out := j.sum(Mul(wide(part[0]), rows))
	return []*Tensor{Cast(out, in[0].DType()), Where(empty, hiddenScore(sum), Add(Log(safe), top))}
}

// attentionRing is the ring of devices that split a sequence, from the view of one of them.
type attentionRing struct {
	joint
	o     attention
	parts []mesh.Range
	// me is the device's position in the ring, seq the length of the whole sequence.
	me, seq int
	queries []int
	// steps is the number of steps after which no device needs further keys.
	steps int
	// travels holds keys, values and, with Segments, the segment ids of keys; stays holds those of queries.
	travels, stays []*Tensor
	// whole holds the gathered contents of travels, with ContextGather.
	whole []*Tensor
}

// newAttentionRing returns the ring of a place for operands q, k and v; further operands begin at index
// extras.
func newAttentionRing(o attention, at *Place, in []*Tensor, extras int) *attentionRing {
	r := &attentionRing{joint: at.joint(1, 1), o: o, seq: at.In[1].Shape[1], travels: []*Tensor{in[1], in[2]}}
	if o.Segments {
		r.stays, r.travels = in[extras:extras+1], append(r.travels, in[extras+1])
	}
	r.parts = partsOf(r.mesh, r.seq, r.axes)
	r.me = at.along(r.axes)
	r.queries = shifted(r.at(r.me), o.Offset)
	for i := range r.parts {
		for p := range r.parts {
			if o.seesAny(shifted(r.at(p), o.Offset), r.at(r.from(p, i))) {
				r.steps = i + 1
			}
		}
	}
	r.steps = max(r.steps, 1)
	if o.Context == ContextGather {
		for _, x := range r.travels {
			r.whole = append(r.whole, AllGather(x, r.mesh, r.axes, 1, r.sizes()))
		}
	}
	return r
}

// next returns the keys and values of a step. It starts the transfer of the step after it first, so that this
// overlaps with computation.
func (r *attentionRing) next(step int) []*Tensor {
	if r.whole != nil {
		return r.cut(r.parts[r.from(r.me, step)])
	}
	keys := r.travels
	if step < r.steps-1 {
		r.travels = r.pass(keys, 1, step+1)
	}
	return keys
}

// segments returns the segment ids of queries and keys.
func (r *attentionRing) segments(keys []*Tensor) []*Tensor {
	if !r.o.Segments {
		return nil
	}
	return []*Tensor{r.stays[0], keys[2]}
}

// partsOf returns the ranges into which axes split a dim.
func partsOf(m *mesh.Mesh, n int, axes mesh.Axes) []mesh.Range {
	parts := []mesh.Range{{Size: n}}
	for _, s := range axes {
		k := m.Extent(s)
		next := make([]mesh.Range, 0, len(parts)*k)
		for _, p := range parts {
			for i := range k {
				c := mesh.Chunk(p.Size, k, i)
				next = append(next, mesh.Range{Start: p.Start + c.Start, Size: c.Size})
			}
		}
		parts = next
	}
	return parts
}

// at returns the positions of a device's part.
func (r *attentionRing) at(part int) []int { return zigzagRanges(r.o.Zigzag, r.seq, r.parts[part]) }

// from returns the device whose part a device holds at a step.
func (r *attentionRing) from(device, step int) int {
	n := len(r.parts)
	return ((device-step)%n + n) % n
}

// keys returns the positions of the keys that the device holds at a step.
func (r *attentionRing) keys(step int) []int { return r.at(r.from(r.me, step)) }

// seen reports whether the device's queries attend to any of the step's keys.
func (r *attentionRing) seen(step int) bool { return r.o.seesAny(r.queries, r.keys(step)) }

// pass sends arrays on by the given number of places. Afterwards the device holds the part of the given step.
func (r *attentionRing) pass(xs []*Tensor, by, step int) []*Tensor {
	var out []*Tensor
	for _, x := range xs {
		if x.Err() != nil {
			return xs
		}
		var shape []int
		if r.seq%len(r.parts) != 0 {
			shape = slices.Clone(x.Shape())
			shape[1] = r.parts[r.from(r.me, step)].Size
		}
		out = append(out, RingShift(x, r.mesh, r.axes, by, shape))
	}
	return out
}
