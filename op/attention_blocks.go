package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// queryBlocks splits the queries so that each block has at most limit scores. It returns one block if all of
// them fit.
func queryBlocks(q, k array.Shape, limit int) []span {
	rows := q[1]
	if perRow := q[0] * q[2] * k[1]; perRow > 0 {
		rows = max(1, min(rows, limit/perRow))
	}
	if rows < q[1] && rows > 128 {
		rows = rows / 128 * 128
	}
	spans := []span{{0, min(rows, q[1])}}
	for at := rows; at < q[1] && rows > 0; at += rows {
		spans = append(spans, span{at, min(at+rows, q[1])})
	}
	return spans
}

// keysOf returns the keys that a block of queries may attend to; all of them if that depends on operands.
func (o attention) keysOf(b span, keys int) span {
	if !o.Causal && o.Window == 0 || o.DynamicOffset {
		return span{0, keys}
	}
	s := span{0, max(1, min(keys, o.Offset+b.end))}
	if o.Window > 0 {
		s.start = max(0, min(o.Offset+b.start+1-o.Window, s.end-1))
	}
	return s
}

// attentionBlock holds the operands of one block of queries.
type attentionBlock struct {
	o       attention
	keys    span
	q, k, v hlo.Ref
	extras  []hlo.Ref
}

// block slices a block of queries, and the keys and values that they attend to, from the operands.
func (o attention) block(w *hlo.Writer, b span, q, k, v hlo.Ref, extras []hlo.Ref) attentionBlock {
	keys := span{0, k.Shape[1]}
	if k.Shape[1] > 0 {
		keys = o.keysOf(b, k.Shape[1])
	}
	o.Offset += b.start - keys.start
	cut := attentionBlock{o: o, keys: keys, q: emitNarrow(w, q, 1, b), k: emitNarrow(w, k, 1, keys),
		v: emitNarrow(w, v, 1, keys)}
	cut.extras = append(cut.extras, extras...)
	if o.Segments {
		cut.extras[0], cut.extras[1] = emitNarrow(w, extras[0], 1, b), emitNarrow(w, extras[1], 1, keys)
	}
	return cut
}

// emitNarrow slices a span of x along dim, or returns x if the span is all of it.
func emitNarrow(w *hlo.Writer, x hlo.Ref, dim int, s span) hlo.Ref {
	if s.start == 0 && s.end == x.Shape[dim] {
		return x
	}
	start, end := make([]int, len(x.Shape)), x.Shape.Clone()
	start[dim], end[dim] = s.start, s.end
	t := withDim(Type{DType: x.DType, Shape: x.Shape}, dim, s.end-s.start)
	return emitSlice(w, x, start, end, ones(len(start)), t)
}

// emitJoin concatenates parts along dim.
func emitJoin(w *hlo.Writer, parts []hlo.Ref, dim int, out Type) hlo.Ref {
	if len(parts) == 1 {
		return parts[0]
	}
	return concat{Dim: dim}.Emit(w, parts, []Type{out})[0]
}

func (o attention) emitBlocks(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	var ys, lses []hlo.Ref
	for _, b := range queryBlocks(in[0].Shape, in[1].Shape, w.Scores()) {
		c := o.block(w, b, in[0], in[1], in[2], in[3:])
		y, lse := newAttentionEmit(w, c.o, c.q, c.k, c.v, c.extras).forward()
		ys, lses = append(ys, w.Convert(y, out[0].DType)), append(lses, w.Convert(lse, out[1].DType))
	}
	return []hlo.Ref{emitJoin(w, ys, 1, out[0]), emitJoin(w, lses, 2, out[1])}
}

func (o attentionGrad) emitBlocks(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	f, n := o.forward(), o.fixed()
	var dqs []hlo.Ref
	var dk, dv hlo.Ref
	for i, b := range queryBlocks(in[0].Shape, in[1].Shape, w.Scores()) {
		c := f.block(w, b, in[0], in[1], in[2], in[n:])
		var dlse *hlo.Ref
		if o.LSEGrad {
			d := emitNarrow(w, in[6], 2, b)
			dlse = &d
		}
		y, dy := emitNarrow(w, in[3], 1, b), w.Convert(emitNarrow(w, in[5], 1, b), in[0].DType)
		dq, pk, pv := newAttentionEmit(w, c.o, c.q, c.k, c.v, c.extras).backward(y, emitNarrow(w, in[4], 2, b), dy,
			dlse)
		dqs = append(dqs, w.Convert(dq, out[0].DType))
		pk, pv = emitAround(w, pk, 1, c.keys, in[1].Shape), emitAround(w, pv, 1, c.keys, in[2].Shape)
		if i == 0 {
			dk, dv = pk, pv
		} else {
			dk, dv = w.Op("add", "", dk.Type, dk, pk), w.Op("add", "", dv.Type, dv, pv)
		}
	}
	return []hlo.Ref{emitJoin(w, dqs, 1, out[0]), w.Convert(dk, out[1].DType), w.Convert(dv, out[2].DType)}
}

// emitAround pads x, which holds a span of dim, with zeros to a larger shape.
func emitAround(w *hlo.Writer, x hlo.Ref, dim int, s span, shape array.Shape) hlo.Ref {
	if x.Shape.Equal(shape) {
		return x
	}
	p := newPad(len(shape))
	p.Low[dim], p.High[dim] = s.start, shape[dim]-s.end
	return p.Emit(w, []hlo.Ref{x}, []Type{{DType: x.DType, Shape: shape}})[0]
}
