package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// AttentionConfig describes which keys each query attends to; the zero value is full attention.
type AttentionConfig struct {
	// Causal hides keys after the query's own position, which is Offset plus its index.
	Causal bool
	// Scale multiplies the scores; 0 means 1/√dim.
	Scale float64
	// Cap, where it is not 0, bounds the scores s smoothly, as Cap·tanh(s/Cap), before any key is hidden.
	Cap float64
	// Window, if not 0, is the number of keys that a query attends to, up to its own position.
	Window int
	// Offset is the position of the first query among the keys, and Start, an integer scalar, is added to it.
	// With a key-value cache it is the number of cached keys; Causal then hides the unused rest of the cache.
	Offset int
	Start  *Tensor
	// QuerySegments [batch, seqQ] and KeySegments [batch, seqK] are the segment ids of packed sequences: a query
	// attends only to keys with its own id.
	QuerySegments, KeySegments *Tensor
	// Context chooses the algorithm of context parallelism, for devices that split the sequence: ContextRing,
	// ContextUlysses, ContextGather, or empty for the cheapest one. Results do not depend on it.
	Context string
	// Zigzag, if not 0, means that the rows of queries, keys and results are in the order ZigzagOrder(Zigzag,
	// seq) instead of that of their positions, so that Zigzag devices have equal work under a causal mask.
	Zigzag int
}

// Attention returns softmax(scale·qkᵀ)·v of q [batch, seqQ, heads, dim], k [batch, seqK, kvHeads, dim] and v
// [batch, seqK, kvHeads, dimV]. Each kvHead serves heads/kvHeads neighbouring heads, as in grouped-query
// attention. A query that attends to no key gives zeros.
func Attention(q, k, v *Tensor, c AttentionConfig) *Tensor {
	out, _ := AttentionLSE(q, k, v, c)
	return out
}

// AttentionLSE returns Attention and, as [batch, heads, seqQ], the log-sum-exp of each query's scores, with
// which attentions over parts of the keys can be merged. It is -Inf for a query that attends to no key.
func AttentionLSE(q, k, v *Tensor, c AttentionConfig) (out, lse *Tensor) {
	o := attention{Causal: c.Causal, Scale: c.Scale, Cap: c.Cap, Window: c.Window, Offset: c.Offset,
		Context: c.Context, Zigzag: c.Zigzag,
		Segments: c.QuerySegments != nil || c.KeySegments != nil, DynamicOffset: c.Start != nil}
	in := []*Tensor{q, k, v}
	if o.Segments {
		for _, s := range []*Tensor{c.QuerySegments, c.KeySegments} {
			if s == nil { // one of the two without segment ids: Infer reports it
				continue
			}
			in = append(in, Cast(s, array.I32))
		}
	}
	if o.DynamicOffset {
		in = append(in, c.Start)
	}
	r := ir.Apply(o, in...)
	return r[0], r[1]
}

// attention takes q, k and v, with Segments the segment ids of queries and keys, and with DynamicOffset a
// scalar.
type attention struct {
	Causal        bool
	Scale         float64
	Cap           float64
	Window        int
	Offset        int
	Segments      bool
	DynamicOffset bool
	Context       string
	Zigzag        int
}

func (attention) Name() string       { return "attention" }
func (attention) NumResults(int) int { return 2 }

func (o attention) Infer(in []Type) ([]Type, error) {
	n := 3 + o.extras()
	if len(in) != n {
		return nil, fmt.Errorf("want %d operands: got %d", n, len(in))
	}
	if err := wantFloats(in[:3], 3); err != nil {
		return nil, err
	}
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	if err := fitAttention(q, k, v); err != nil {
		return nil, err
	}
	if o.Window < 0 {
		return nil, fmt.Errorf("window %d: want 0 for none or more", o.Window)
	}
	if !(o.Cap >= 0) || math.IsInf(o.Cap, 1) {
		return nil, fmt.Errorf("cap %v: want 0 for none or a positive number", o.Cap)
	}
	if err := o.inferExtras(q, k, in[3:]); err != nil {
		return nil, err
	}
	if err := o.checkSequence(q, k); err != nil {
		return nil, err
	}
	return []Type{
		{DType: in[0].DType, Shape: array.Shape{q[0], q[1], q[2], v[3]}},
		{DType: in[0].DType.Compute(), Shape: array.Shape{q[0], q[2], q[1]}},
	}, nil
}

// fitAttention checks the shapes of q, k and v against each other.
func fitAttention(q, k, v array.Shape) error {
	if len(q) != 4 || len(k) != 4 || len(v) != 4 {
		return fmt.Errorf("want [batch seq heads dim]: got %v, %v and %v", q, k, v)
	}
	switch {
	case q[0] != k[0] || q[0] != v[0]:
		return fmt.Errorf("batches of %v, %v and %v differ", q, k, v)
	case k[1] != v[1] || k[2] != v[2]:
		return fmt.Errorf("keys %v do not fit values %v", k, v)
	case q[3] != k[3]:
		return fmt.Errorf("cannot contract queries %v with keys %v: sizes %d and %d", q, k, q[3], k[3])
	case k[2] == 0 && q[2] != 0 || k[2] != 0 && q[2]%k[2] != 0:
		return fmt.Errorf("%d heads of queries %v are not a multiple of the %d of keys %v", q[2], q, k[2], k)
	}
	return nil
}

// extras returns the number of operands after q, k and v.
func (o attention) extras() int {
	n := 0
	if o.Segments {
		n = 2
	}
	if o.DynamicOffset {
		n++
	}
	return n
}

func (o attention) inferExtras(q, k array.Shape, in []Type) error {
	if o.Segments {
		for i, want := range []array.Shape{q[:2], k[:2]} {
			if in[i].DType != array.I32 || !in[i].Shape.Equal(want) {
				return fmt.Errorf("segments %v: want i32%v", in[i], want)
			}
		}
	}
	if o.DynamicOffset {
		if t := in[len(in)-1]; !t.DType.IsInt() || len(t.Shape) != 0 {
			return fmt.Errorf("offset %v: want an integer scalar", t)
		}
	}
	return nil
}

func (o attention) VJP(in, out, dout []*Tensor) []*Tensor {
	g := attentionGrad{Causal: o.Causal, Scale: o.Scale, Cap: o.Cap, Window: o.Window, Offset: o.Offset,
		Segments: o.Segments, DynamicOffset: o.DynamicOffset, LSEGrad: dout[1] != nil, Context: o.Context,
		Zigzag: o.Zigzag}
	d := dout[0]
	if d == nil {
		d = ZerosLike(out[0])
	}
	operands := []*Tensor{in[0], in[1], in[2], out[0], out[1], d}
	if g.LSEGrad {
		operands = append(operands, dout[1])
	}
	grads := make([]*Tensor, len(in))
	copy(grads, ir.Apply(g, append(operands, in[3:]...)...)[:3])
	return grads
}

// attentionWords holds the factors of q, k, v, out, lse and the further operands in a sharding rule; s and t
// are the sequences of queries and keys, e is the dim of a value.
type attentionWords struct{ q, k, v, out, lse, extras, notes string }

func (o attention) words(q, k array.Shape, s, t, e string) attentionWords {
	heads, notes := "g", ""
	if q[2] != k[2] {
		heads, notes = "(gr)", fmt.Sprintf("; r=%d", q[2]/max(1, k[2]))
	}
	w := attentionWords{
		q: "b" + s + heads + "d*", k: "b" + t + "gd*", v: "b" + t + "g" + e,
		out: "b" + s + heads + e, lse: "b" + heads + s, notes: notes,
	}
	if o.Segments {
		w.extras += ",b" + s + ",b" + t
	}
	if o.DynamicOffset {
		w.extras += ","
	}
	return w
}

// Rule does not let keys be split, because the softmax runs over them, nor the dim of values, because lse is
// not a sum over its parts.
func (o attention) Rule(in []Type) mesh.Rule {
	w := o.words(in[0].Shape, in[1].Shape, o.seq(), "t*", "e*")
	return mesh.Rule(w.q + "," + w.k + "," + w.v + w.extras + "->" + w.out + "," + w.lse + w.notes)
}

func (o attention) Localize(at *Place) (Op, error) {
	o.Offset += positionShift(at)
	return o, nil
}

// positionShift returns the offset that a device adds to the position of its first query relative to its
// keys.
func positionShift(at *Place) int { return at.InRange(0, 1).Start - at.InRange(1, 1).Start }

// pairs returns the number of pairs of query and key that the mask admits, not counting segments. If the
// offset is an operand, the last query is assumed to attend to all keys.
func (o attention) pairs(q, k array.Shape) float64 {
	offset := o.Offset
	if o.DynamicOffset {
		offset = max(0, k[1]-q[1])
	}
	n := 0.0
	for i := range q[1] {
		lo, hi := 0, k[1]
		if o.Causal || o.Window > 0 {
			hi = max(0, min(hi, offset+i+1))
		}
		if o.Window > 0 {
			lo = max(0, offset+i+1-o.Window)
		}
		n += float64(max(0, hi-lo))
	}
	return n * float64(q[0]*q[2])
}

// softmaxFlops is the cost of an element of the scores besides the products: scale, shift, exponential, sum.
const softmaxFlops = 4

// Attender is implemented by ops whose time goes into the products of attention: queries with keys, and
// weights with values.
type Attender interface {
	Op
	// Attends returns the numbers of queries and keys of a sequence, and the size of a head.
	Attends(in []Type) (queries, keys, dim int)
}

func attends(in []Type) (queries, keys, dim int) {
	return in[0].Shape[1], in[1].Shape[1], in[0].Shape[3]
}

// Attends returns the sizes that its operands have.
func (attention) Attends(in []Type) (queries, keys, dim int) { return attends(in) }

// Work counts the pairs of query and key that the mask admits.
func (o attention) Work(in, out []Type) Work {
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	return Work{Flops: o.pairs(q, k) * float64(2*(q[3]+v[3])+softmaxFlops), Bytes: moved(in, out)}
}

func (o attention) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runAttention[float32](env, o, in, out) },
		func() { runAttention[float64](env, o, in, out) })
}

func runAttention[T floats](env *Env, o attention, in, out []array.Array) {
	a := attentionKernel[T](o, in[:3], in[3:])
	y, lse := array.Data[T](out[0]), array.Data[T](out[1])
	if o.Zigzag == 0 {
		a.Forward(env.Pool, y, lse)
		return
	}
	clearAttention(y, lse)
	rows := o.zigzagRows(a.SeqQ)
	attendSpans(env, o, a, rows, rows, y, lse)
}

// zigzagRows returns the positions of the rows of a whole sequence.
func (o attention) zigzagRows(seq int) []int {
	return zigzagRanges(o.Zigzag, seq, mesh.Range{Size: seq})
}

// attentionKernel returns the CPU kernel for the attention o of q, k and v with the further operands.
func attentionKernel[T floats](o attention, qkv, extras []array.Array) *kernel.Attention[T] {
	q, k, v := qkv[0].Shape(), qkv[1].Shape(), qkv[2].Shape()
	mask := kernel.AttentionMask{Causal: o.Causal, Window: o.Window, Offset: o.Offset}
	if o.Segments {
		mask.SegmentsQ, mask.SegmentsK = array.Data[int32](extras[0]), array.Data[int32](extras[1])
	}
	if o.DynamicOffset {
		mask.Offset += int(extras[len(extras)-1].At(0))
	}
	return &kernel.Attention[T]{
		Batch: q[0], SeqQ: q[1], SeqK: k[1], Heads: q[2], KVHeads: k[2], Dim: q[3], DimV: v[3],
		Scale: T(o.scale(q)), Cap: T(o.Cap), Mask: mask,
		Q: array.Data[T](qkv[0]), K: array.Data[T](qkv[1]), V: array.Data[T](qkv[2]),
	}
}

func (o attention) scale(q array.Shape) float64 {
	if o.Scale != 0 || q[3] == 0 {
		return o.Scale
	}
	return 1 / math.Sqrt(float64(q[3]))
}

// Emit uses cuDNN's kernel if it supports this attention. Otherwise it computes blocks of queries one after
// the other, so that only the scores of one block are in memory.
func (o attention) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if o.Zigzag != 0 { // blocks and fused kernels expect rows in the order of their positions
		return emitByParts(o, w, in, out)
	}
	if a, ok := o.fused(w, in); ok {
		return a.Forward(w, in, hloType(out[0]), hloType(out[1]))
	}
	return o.emitBlocks(w, in, out)
}

func (attention) Samples() []Sample {
	var samples []Sample
	for _, o := range []attention{
		{}, {Causal: true}, {Causal: true, Scale: 0.3}, {Window: 3}, {Causal: true, Offset: 2},
		{Segments: true}, {Causal: true, DynamicOffset: true, Segments: true}, {Causal: true, Cap: 0.7},
		{Window: 2, Cap: 1.5, Scale: 0.9},
	} {
		samples = append(samples, Sample{Op: o, In: o.sample(5, 7, 4, 2)}, Sample{Op: o, In: o.sample(6, 6, 2, 2)})
	}
	for _, o := range []attention{{Causal: true, Zigzag: 2},
		{Causal: true, Window: 7, Zigzag: 3, Context: ContextRing}, {Causal: true, Context: ContextUlysses},
		{Segments: true, Context: ContextUlysses}, {Causal: true, Zigzag: 2, Context: ContextGather},
		{Segments: true, Context: ContextGather}, {Window: 5, Causal: true, Context: ContextGather},
		{Causal: true, Zigzag: 2, Cap: 1.2, Context: ContextRing}} {
		samples = append(samples, Sample{Op: o, In: o.sample(12, o.sampleKeys(12), 8, 4)})
	}
	return append(samples, Sample{Op: attention{Causal: true}, In: attention{}.sample(70, 70, 3, 1)})
}

// sampleKeys returns the seqK for which sample makes n keys.
func (o attention) sampleKeys(n int) int {
	if o.Segments {
		return n - 9
	}
	return n
}

// sample returns operands for o with segments such that every query attends to some key, which keeps a sum
// over lse finite.
func (o attention) sample(seqQ, seqK, heads, kvHeads int) []Arg {
	if o.Segments {
		seqK += 9
	}
	args := []Arg{f32(2, seqQ, heads, 4), f32(2, seqK, kvHeads, 4), f32(2, seqK, kvHeads, 3)}
	if o.Segments {
		args = append(args, i32Below(2, 2, seqQ), i32Below(2, 2, seqK))
	}
	if o.DynamicOffset {
		args = append(args, Arg{Type: Type{DType: array.I64}, Low: 9, High: 12})
	}
	return args
}
