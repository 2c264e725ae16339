package op

import (
	"errors"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// PagedAttentionConfig configures attention of new tokens to a paged key-value cache.
type PagedAttentionConfig struct {
	// Tokens is the number of tokens of a page.
	Tokens int
	// Scale multiplies scores; 0 means 1/√dim. Cap limits them to ±Cap by tanh; 0 means no limit.
	Scale, Cap float64
	// Window is the number of tokens that a query attends to, itself included; 0 means all before it.
	Window int
}

// PagedAttention returns causal attention of new tokens to keys and values in pages. Queries q are [batch,
// seq, heads, dim], keys k [slots, key heads, dim] and values v [slots, key heads, value dim]: pages of
// Tokens slots that all sequences share, in q's dtype or another. Each key head serves heads/key heads
// neighbouring heads. Row i of table [batch, pages] lists the pages of sequence i in order; positions [batch,
// seq] holds the positions of its new tokens, each of which attends to keys up to its own, which must be in
// the pages already. The result is [batch, seq, heads, value dim].
func PagedAttention(q, k, v, table, positions *Tensor, c PagedAttentionConfig) *Tensor {
	return apply1(pagedAttention(c), q, k, v, table, positions)
}

type pagedAttention PagedAttentionConfig

func (pagedAttention) Name() string { return "paged_attention" }
func (pagedAttention) NoGradient() string {
	return "a cache holds keys and values of a " +
		"trained model"
}
func (pagedAttention) VJP(_, _, _ []*Tensor) []*Tensor { return nil }
func (o pagedAttention) Role() any                     { return PagedAttentionRole(o) }

func (o pagedAttention) Infer(in []Type) ([]Type, error) {
	if len(in) != 5 {
		return nil, fmt.Errorf("want 5 operands: got %d", len(in))
	}
	if err := errors.Join(wantFloats(in[:1], 1), wantFloats(in[1:3], 2)); err != nil {
		return nil, err
	}
	if in[0].DType.Compute() != in[1].DType.Compute() {
		return nil, fmt.Errorf("queries of %v and keys of %v: want both f64, or neither", in[0], in[1])
	}
	q, k, v, table, positions := in[0].Shape, in[1].Shape, in[2].Shape, in[3], in[4]
	if len(q) != 4 || len(k) != 3 || len(v) != 3 || !k[:2].Equal(v[:2]) || k[2] != q[3] ||
		q[2]%max(1, k[1]) != 0 || k[1] == 0 && q[2] > 0 {
		return nil, fmt.Errorf("want queries [batch seq heads dim], and keys and values [slots key-heads dim] "+
			"whose heads divide the queries': got %v, %v and %v", in[0], in[1], in[2])
	}
	if o.Tokens < 1 || k[0]%o.Tokens != 0 || o.Window < 0 {
		return nil, fmt.Errorf("pages of %d tokens of %d slots, window %d: want whole pages, and 0 or more",
			o.Tokens,
			k[0], o.Window)
	}
	if table.DType != array.I32 || len(table.Shape) != 2 || table.Shape[0] != q[0] || table.Shape[1] == 0 {
		return nil, fmt.Errorf("table %v: want i32[%d, pages]", table, q[0])
	}
	if positions.DType != array.I32 || !positions.Shape.Equal(q[:2]) {
		return nil, fmt.Errorf("positions %v: want i32%v", positions, q[:2])
	}
	return []Type{{DType: in[0].DType, Shape: array.Shape{q[0], q[1], q[2], v[2]}}}, nil
}

// scale returns the factor of scores.
func (o pagedAttention) scale(dim int) float64 {
	if o.Scale != 0 {
		return o.Scale
	}
	return 1 / math.Sqrt(float64(dim))
}

// Decompose gathers the pages of each sequence; the queries that share a key head are rows of one product.
func (o pagedAttention) Decompose(in []*Tensor) []*Tensor {
	q, table, positions := in[0], in[3], in[4]
	batch, seq, heads, dim := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	shared, keys := in[1].Dim(1), table.Dim(1)*o.Tokens
	gather := func(pool *Tensor) *Tensor {
		pages := Reshape(pool, pool.Dim(0)/o.Tokens, o.Tokens, shared, pool.Dim(2))
		rows := IndexSelect(pages, 0, Reshape(table, batch*table.Dim(1)))
		return Transpose(Cast(Reshape(rows, batch, keys, shared, pool.Dim(2)), q.DType()), 0, 2, 1, 3)
	}
	group := heads / max(1, shared)
	q = Transpose(Reshape(q, batch, seq, shared, group, dim), 0, 2, 3, 1, 4)
	q = Reshape(q, batch, shared, group*seq, dim)
	scores := MatMulT(q, gather(in[1]), false, true)
	wide := array.F32
	if scores.DType() == array.F64 {
		wide = array.F64
	}
	scores = MulScalar(Cast(Reshape(scores, batch, shared, group, seq, keys), wide), o.scale(dim))
	if o.Cap != 0 {
		scores = MulScalar(Tanh(MulScalar(scores, 1/o.Cap)), o.Cap)
	}
	scores = Where(o.seen(scores, positions), scores, Const(scores, -1e30))
	weights := Reshape(Cast(Softmax(scores, -1), q.DType()), batch, shared, group*seq, keys)
	y := Reshape(MatMul(weights, gather(in[2])), batch, shared, group, seq, in[2].Dim(2))
	return []*Tensor{Reshape(Transpose(y, 0, 3, 1, 2, 4), batch, seq, heads, in[2].Dim(2))}
}

// seen returns which keys the queries at positions attend to, for scores [batch, heads, group, seq, keys].
func (o pagedAttention) seen(scores, positions *Tensor) *Tensor {
	batch, seq := scores.Dim(0), scores.Dim(3)
	at := Expand(Reshape(positions, batch, 1, 1, seq, 1), scores.Shape()...)
	key := Iota(scores.Scope(), positions.DType(), scores.Shape(), 4)
	mask := GreaterEqual(at, key)
	if o.Window > 0 {
		mask = LogicalAnd(mask, Less(Sub(at, key), Const(at, float64(o.Window))))
	}
	return mask
}

// Rule lets sequences be split, and key heads with the queries that share them, but not pages, because any
// sequence may need any page.
func (o pagedAttention) Rule(in []Type) mesh.Rule {
	heads, notes := "h", ""
	if q, k := in[0].Shape[2], in[1].Shape[1]; q != k {
		heads, notes = "(hg)", fmt.Sprintf("; g=%d", q/max(1, k))
	}
	return mesh.Rule("bs" + heads + "d*,p*hd*,p*he,bt*,bs->bs" + heads + "e" + notes)
}

// Work counts the pages in the table.
func (o pagedAttention) Work(in, out []Type) Work {
	q, keys := in[0].Shape, float64(in[3].Shape.Len()*o.Tokens)
	dims := in[1].Shape[2] + in[2].Shape[2]
	read := keys * float64(in[1].Shape[1]*dims*in[1].DType.Size())
	return Work{Flops: 2 * keys * float64(q[1]*q[2]*dims),
		Bytes: read + moved([]Type{in[0], in[3], in[4]}, out)}
}

func (o pagedAttention) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runPagedAttention[float32](env, o, in, out[0]) },
		func() { runPagedAttention[float64](env, o, in, out[0]) })
}

func runPagedAttention[T floats](env *Env, o pagedAttention, in []array.Array, out array.Array) {
	q, shared := in[0].Shape(), in[1].Shape()[1]
	seq, heads, dim := q[1], q[2], q[3]
	queries, keys, values := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2])
	table, positions := readIndices(o, in[3], in[1].Shape()[0]/o.Tokens), array.Data[int32](in[4])
	pages, wide, y := in[3].Shape()[1], in[2].Shape()[2], array.Data[T](out)
	env.split(q[0]*seq*heads, func(lo, hi int) {
		scores := make([]float64, pages*o.Tokens)
		for i := lo; i < hi; i++ {
			row, key := i/heads/seq, i%heads/(heads/shared)
			of := table[row*pages : (row+1)*pages]
			at := func(t int) int { return (of[t/o.Tokens]*o.Tokens+t%o.Tokens)*shared + key }
			attendPages(o, queries[i*dim:(i+1)*dim], keys, values, y[i*wide:(i+1)*wide], scores,
				int(positions[i/heads]), at)
		}
	})
}

// attendPages computes one query's row; at returns the index of a token among the heads of all slots.
func attendPages[T floats](o pagedAttention, q, keys, values, y []T, scores []float64, position int,
	at func(token int) int) {
	first, last := 0, min(position, len(scores)-1)
	if o.Window > 0 {
		first = max(0, position-o.Window+1)
	}
	most := math.Inf(-1)
	for t := first; t <= last; t++ {
		s := 0.0
		for d, x := range keys[at(t)*len(q):][:len(q)] {
			s += float64(q[d]) * float64(x)
		}
		s *= o.scale(len(q))
		if o.Cap != 0 {
			s = o.Cap * math.Tanh(s/o.Cap)
		}
		scores[t], most = s, max(most, s)
	}
	sum, acc := 0.0, make([]float64, len(y))
	for t := first; t <= last; t++ {
		p := math.Exp(scores[t] - most)
		sum += p
		for d, x := range values[at(t)*len(y):][:len(y)] {
			acc[d] += p * float64(x)
		}
	}
	for d := range y {
		y[d] = T(acc[d] / sum)
	}
}

func (o pagedAttention) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitAsIs(o, w, in)
}

func (pagedAttention) Samples() []Sample {
	return []Sample{
		{Op: pagedAttention{Tokens: 4}, In: []Arg{f32(2, 1, 4, 3), f32(24, 2, 3), f32(24, 2, 3), i32Below(6, 2, 3),
			i32Below(12, 2, 1)}},
		{Op: pagedAttention{Tokens: 2, Scale: 0.4, Cap: 2, Window: 3}, In: []Arg{f32(1, 3, 2, 4), f32(8, 2, 4),
			f32(8, 2, 3), i32Below(4, 1, 3), i32Below(6, 1, 3)}},
	}
}
