package op

import (
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// attentionEmit writes one block of attention. Scores are [b g s r t], in the compute dtype. Products read
// 16-bit floats directly, so that tensor cores multiply them, and accumulate in the compute dtype.
type attentionEmit struct {
	w       *hlo.Writer
	o       attention
	q, k, v hlo.Ref // q is [b s g r d]
	extras  []hlo.Ref
	scores  hlo.Type
	rows    hlo.Type // one number for each query: [b g s r]
}

func newAttentionEmit(w *hlo.Writer, o attention, q, k, v hlo.Ref, extras []hlo.Ref) *attentionEmit {
	e := &attentionEmit{w: w, o: o, k: k, v: v, extras: extras}
	e.q = e.split(q)
	s := e.q.Shape
	e.rows = hlo.Type{DType: q.DType.Compute(), Shape: array.Shape{s[0], s[2], s[1], s[3]}}
	e.scores = hlo.Type{DType: e.rows.DType, Shape: append(e.rows.Shape.Clone(), k.Shape[1])}
	return e
}

// split returns x [b s h d] with its heads split, as [b s g r d].
func (e *attentionEmit) split(x hlo.Ref) hlo.Ref {
	s, groups := x.Shape, e.k.Shape[2]
	return e.w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: array.Shape{s[0], s[1], groups, s[2] / max(1,
		groups), s[3]}}, x)
}

// permuted returns x with its dims in another order.
func (e *attentionEmit) permuted(x hlo.Ref, perm ...int) hlo.Ref {
	shape := make(array.Shape, len(perm))
	for i, d := range perm {
		shape[i] = x.Shape[d]
	}
	return e.w.Op("transpose", "permutation = "+hlo.Ints(perm), hlo.Type{DType: x.DType, Shape: shape}, x)
}

// dot multiplies with batch dims b and g and contracts the given dims; the result has the compute dtype.
func (e *attentionEmit) dot(x, y hlo.Ref, gx, gy int, sumX, sumY []int) hlo.Ref {
	shape := array.Shape{x.Shape[0], x.Shape[gx]}
	for _, side := range []struct {
		shape array.Shape
		used  []int
	}{{x.Shape, append([]int{0, gx}, sumX...)}, {y.Shape, append([]int{0, gy}, sumY...)}} {
		for d, n := range side.shape {
			if !slices.Contains(side.used, d) {
				shape = append(shape, n)
			}
		}
	}
	return e.w.Dot(x, y, []int{0, gx}, []int{0, gy}, sumX, sumY, hlo.Type{DType: e.scores.DType, Shape: shape})
}

// bin returns a binary op, with y broadcast along the scores' last dim if it lacks that.
func (e *attentionEmit) bin(name string, x, y hlo.Ref) hlo.Ref {
	if len(y.Shape) < len(x.Shape) {
		y = e.w.Broadcast(y, x.Shape, upTo(len(y.Shape)))
	}
	return e.w.Op(name, "", x.Type, x, y)
}

// raw returns the scaled scores, divided by the cap if there is one: the argument of tanh.
func (e *attentionEmit) raw() hlo.Ref {
	s := e.dot(e.q, e.k, 2, 2, []int{4}, []int{3})
	scale := e.o.scale(array.Shape{0, 0, 0, e.q.Shape[4]})
	if e.o.Cap != 0 {
		scale /= e.o.Cap
	}
	return e.times(s, scale)
}

// times returns x times a number.
func (e *attentionEmit) times(x hlo.Ref, by float64) hlo.Ref {
	return e.bin("multiply", x, e.w.Constant(hlo.Type{DType: x.DType}, by))
}

// slope multiplies ds by the derivative of the capped scores.
func (e *attentionEmit) slope(ds hlo.Ref) hlo.Ref {
	t := e.w.Op("tanh", "", e.scores, e.raw())
	square := e.w.Op("multiply", "", t.Type, t, t)
	return e.w.Op("multiply", "", ds.Type, ds, e.w.Op("subtract", "", t.Type, e.w.Constant(t.Type, 1), square))
}

// masked returns the scaled and capped scores, -Inf where a key is hidden.
func (e *attentionEmit) masked() hlo.Ref {
	w, s := e.w, e.raw()
	if e.o.Cap != 0 {
		s = e.times(w.Op("tanh", "", s.Type, s), e.o.Cap)
	}
	if mask, ok := e.mask(); ok {
		s = w.Op("select", "", s.Type, mask, s, w.Constant(s.Type, math.Inf(-1)))
	}
	return s
}

// mask returns which keys each query attends to; some is false if no key is hidden.
func (e *attentionEmit) mask() (mask hlo.Ref, some bool) {
	w, shape := e.w, e.scores.Shape
	both := func(m hlo.Ref, dims ...int) {
		m = w.Broadcast(m, shape, dims)
		if some {
			m = w.Op("and", "", m.Type, mask, m)
		}
		mask, some = m, true
	}
	if e.o.Causal || e.o.Window > 0 {
		t := hlo.Type{DType: array.I32, Shape: array.Shape{shape[2], shape[4]}}
		at := w.Op("add", "", t, emitIota(w, t, 0), w.Constant(t, float64(e.o.Offset)))
		if e.o.DynamicOffset {
			start := w.Convert(e.extras[len(e.extras)-1], array.I32)
			at = w.Op("add", "", t, at, w.Broadcast(start, t.Shape, nil))
		}
		key := emitIota(w, t, 1)
		both(w.Compare("LE", key, at), 2, 4)
		if e.o.Window > 0 {
			both(w.Compare("GT", key, w.Op("subtract", "", t, at, w.Constant(t, float64(e.o.Window)))), 2, 4)
		}
	}
	if e.o.Segments {
		t := array.Shape{shape[0], shape[2], shape[4]}
		both(w.Compare("EQ", w.Broadcast(e.extras[0], t, []int{0, 1}), w.Broadcast(e.extras[1], t, []int{0, 2})), 0,
			2, 4)
	}
	return mask, some
}

// finite returns x, one number for each query, with -Inf replaced by another number.
func (e *attentionEmit) finite(x hlo.Ref, instead float64) hlo.Ref {
	hidden := e.w.Compare("EQ", x, e.w.Constant(x.Type, math.Inf(-1)))
	return e.w.Op("select", "", x.Type, hidden, e.w.Constant(x.Type, instead), x)
}

// forward returns the result [b s h e] and lse [b h s].
func (e *attentionEmit) forward() (y, lse hlo.Ref) {
	w, s := e.w, e.masked()
	top := e.finite(w.Reduce("maximum", s, math.Inf(-1), []int{4}, e.rows), 0)
	p := w.Op("exponential", "", s.Type, e.bin("subtract", s, top))
	sum := w.Reduce("add", p, 0, []int{4}, e.rows)
	empty := w.Compare("EQ", sum, w.Constant(sum.Type, 0))
	safe := w.Op("select", "", sum.Type, empty, w.Constant(sum.Type, 1), sum)
	// [b g s r e], divided after the product, because it is smaller than the scores
	out := e.dot(w.Convert(p, e.v.DType), e.v, 1, 2, []int{4}, []int{1})
	out = e.permuted(e.bin("divide", out, safe), 0, 2, 1, 3, 4)
	o := out.Shape
	y = w.Op("reshape", "", hlo.Type{DType: out.DType, Shape: array.Shape{o[0], o[1], o[2] * o[3], o[4]}}, out)
	lse = w.Op("add", "", sum.Type, w.Op("log", "", sum.Type, safe), top)
	lse = w.Op("select", "", lse.Type, empty, w.Constant(lse.Type, math.Inf(-1)), lse)
	return y, e.joinRows(lse)
}

// joinRows returns one number for each query, [b g s r], as [b h s]; splitRows is the inverse.
func (e *attentionEmit) joinRows(x hlo.Ref) hlo.Ref {
	x = e.permuted(x, 0, 1, 3, 2)
	s := x.Shape
	return e.w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: array.Shape{s[0], s[1] * s[2], s[3]}}, x)
}

func (e *attentionEmit) splitRows(x hlo.Ref) hlo.Ref {
	r := e.rows.Shape
	x = e.w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: array.Shape{r[0], r[1], r[3], r[2]}}, x)
	return e.permuted(e.w.Convert(x, e.rows.DType), 0, 1, 3, 2)
}

// backward returns the gradients of q, k and v from the result y, lse, the gradient of y and, unless it is
// nil, the gradient of lse.
func (e *attentionEmit) backward(y, lse, dy hlo.Ref, dlse *hlo.Ref) (dq, dk, dv hlo.Ref) {
	w, d := e.w, e.scores.DType
	rows := e.finite(e.splitRows(lse), 0)
	s := e.masked()
	p := w.Op("exponential", "", s.Type, e.bin("subtract", s, rows))
	dout := e.split(dy)
	product := w.Op("multiply", "", hlo.Type{DType: d, Shape: dout.Shape}, w.Convert(dout, d),
		w.Convert(e.split(y), d))
	delta := e.permuted(w.Reduce("add", product, 0, []int{4}, hlo.Type{DType: d, Shape: dout.Shape[:4]}), 0, 2,
		1, 3)
	if dlse != nil {
		delta = w.Op("subtract", "", delta.Type, delta, e.splitRows(*dlse))
	}
	dp := e.dot(dout, e.v, 2, 2, []int{4}, []int{3})
	ds := w.Op("multiply", "", s.Type, p, e.bin("subtract", dp, delta))
	ds = e.times(ds, e.o.scale(array.Shape{0, 0, 0, e.q.Shape[4]}))
	if e.o.Cap != 0 {
		ds = e.slope(ds)
	}
	ds, p = w.Convert(ds, e.q.DType), w.Convert(p, e.v.DType)
	dq = e.permuted(e.dot(ds, e.k, 1, 2, []int{4}, []int{1}), 0, 2, 1, 3, 4)
	q := e.q.Shape
	dq = w.Op("reshape", "", hlo.Type{DType: d, Shape: array.Shape{q[0], q[1], q[2] * q[3], q[4]}}, dq)
	dk = e.permuted(e.dot(ds, e.q, 1, 2, []int{2, 3}, []int{1, 3}), 0, 2, 1, 3)
	dv = e.permuted(e.dot(p, w.Convert(dout, p.DType), 1, 2, []int{2, 3}, []int{1, 3}), 0, 2, 1, 3)
	return dq, dk, dv
}
