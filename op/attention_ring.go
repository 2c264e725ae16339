package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// The ways in which an attention meets a sequence that is split.
const (
	// ContextRing: each device keeps its queries, and keys and values travel round the devices.
	ContextRing = "ring"
	// ContextUlysses: the sequence is made whole and the heads are split instead, by exchanges of all with all.
	// Where the heads of keys do not divide among the devices, it is a ring.
	ContextUlysses = "ulysses"
	// ContextGather: each device keeps its queries and has all keys and values at once; their gradients are
	// scattered. It sends as much as a ring, in one exchange.
	ContextGather = "gather"
)

// checkSequence checks how a split sequence is met and ordered.
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

// seq returns the name of the sequence of queries in the op's own rule: whole where rows are not in the order
// of their positions.
func (o attention) seq() string {
	if o.Zigzag > 0 {
		return "s*"
	}
	return "s"
}

// sharedSequence returns how devices share a sequence: of queries and keys, which are then split alike, or of
// keys alone where they are not as many.
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

// CooperativeRule lets devices share the sequence.
func (o attention) CooperativeRule(in []Type) CooperativeRule {
	w, prefer := o.sharedSequence(in[0].Shape, in[1].Shape)
	return CooperativeRule{Prefer: prefer,
		Rule: mesh.Rule(w.q + "," + w.k + "," + w.v + w.extras + "->" + w.out + "," + w.lse + w.notes)}
}

// Cooperate keeps queries where they are. Keys and values go round the ring of devices, and each of them
// continues with its rows where the part that has come holds keys that they see.
func (o attention) Cooperate(at *Place, in []*Tensor) []*Tensor {
	if at.Rule.Index('t') >= 0 {
		return o.joinKeys(at, in)
	}
	if u, ok := newUlysses(at); ok && o.Context == ContextUlysses {
		return u.attend(o, in)
	}
	r := newAttentionRing(o, at, in, 3)
	q := in[0]
	out, lse := nothingYet(q, in[2])
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

// CooperativeRule lets devices share the sequence of queries and keys where these are as many; otherwise it
// can be split anyhow.
func (o attentionGrad) CooperativeRule(in []Type) CooperativeRule {
	f := o.forward()
	if q, k := in[0].Shape, in[1].Shape; q[1] != k[1] || o.DynamicOffset {
		return CooperativeRule{}
	}
	w, prefer := f.sharedSequence(in[0].Shape, in[1].Shape)
	return CooperativeRule{Prefer: prefer,
		Rule: mesh.Rule(o.operands(w) + "->" + w.q + "," + w.k + "," + w.v + w.notes)}
}

// Cooperate sends keys and values round the ring, and with them their gradients, which then go home.
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

// zerosWide returns zeros like x in the dtype in which sums of it are kept.
func zerosWide(x *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	return Full(x.Scope(), x.DType().Compute(), x.Shape(), 0)
}

// joinKeys returns an attention of which each device has some keys: all compute with their own and join what
// they have.
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

// attentionRing is the ring of the devices that share a sequence, as one of them sees it.
type attentionRing struct {
	joint
	o     attention
	parts []mesh.Range
	// me is the device's place, seq the length of the whole sequence.
	me, seq int
	queries []int
	// steps is after how many parts no device sees any more keys.
	steps int
	// travels is keys, values and with Segments the numbers of keys; stays the numbers of queries.
	travels, stays []*Tensor
	// whole is what travels, of all devices, where it does not travel but is gathered.
	whole []*Tensor
}

// newAttentionRing returns the ring of a place for operands q, k and v, with further ones from extras on.
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

// next returns the keys and values of a step. Those of the step after it are on their way before anything is
// computed, so that they can travel meanwhile.
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

// segments returns the numbers of queries and of keys.
func (r *attentionRing) segments(keys []*Tensor) []*Tensor {
	if !r.o.Segments {
		return nil
	}
	return []*Tensor{r.stays[0], keys[2]}
}

// partsOf returns how axes cut a dim.
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

// at returns the positions of a part.
func (r *attentionRing) at(part int) []int { return stretches(r.o.Zigzag, r.seq, r.parts[part]) }

// from returns whose part a device has at a step.
func (r *attentionRing) from(device, step int) int {
	n := len(r.parts)
	return ((device-step)%n + n) % n
}

// keys returns the positions of the keys that the device has at a step.
func (r *attentionRing) keys(step int) []int { return r.at(r.from(r.me, step)) }

// seen reports whether the device's queries see any of them.
func (r *attentionRing) seen(step int) bool { return r.o.seesAny(r.queries, r.keys(step)) }

// pass hands arrays on by some places. What the device then has is what it is to have at a step.
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
