package plan

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// piece is a part of a layer between two collectives, on one device: seconds forward, backward for the
// gradients of inputs, and backward for those of parameters.
type piece struct {
	forward, input, weight float64
}

func (p piece) plus(q piece) piece {
	return piece{p.forward + q.forward, p.input + q.input, p.weight + q.weight}
}

func (p piece) times(x float64) piece { return piece{p.forward * x, p.input * x, p.weight * x} }

// pieceKind names the programs of pieces.
type pieceKind uint8

const (
	normPiece pieceKind = iota
	residualPiece
	attentionPiece
	corePiece // attention without its projections: what selective recomputation repeats
	mlpPiece
	routerPiece
	expertPiece
	embeddingPiece
	headPiece
)

// pieceKey holds what a piece's program depends on besides the workload and the device.
type pieceKey struct {
	kind   pieceKind
	tokens int // rows of the products
	batch  int // sequences, for attention
	query  int // length of a sequence's own part
	keys   int // the maximal number of keys that it attends to
	tp     int // number of devices that split heads, widths or vocabulary
	width  int // of a feed-forward layer
	local  int // experts on the device
	window int // number of keys that a query attends to; 0 means all before it
}

// sketch builds the pieces of a workload's model.
type sketch struct {
	b     *ir.Builder
	w     *Workload
	dtype array.DType
	x     []*ir.Value // inputs
	ws    []*ir.Value // parameters
}

// program prices a piece.
func (p *pricer) program(w *Workload, k pieceKey) (piece, error) {
	f, inputs, err := w.program(k)
	if err != nil {
		return piece{}, err
	}
	return p.sum(f, inputs), nil
}

// program builds a piece and differentiates it. Its results are the piece's own, the gradients of the inputs,
// inputs of them, and those of its parameters.
func (w *Workload) program(k pieceKey) (f *ir.Func, inputs int, err error) {
	dtype := array.BF16
	if precisions[w.Precision].bytes == 4 {
		dtype = array.F32
	}
	s := &sketch{b: ir.NewBuilder("piece"), w: w, dtype: dtype}
	defer s.b.At("layer")()
	y := s.build(k)
	if err := s.b.Err(); err != nil {
		return nil, 0, fmt.Errorf("plan: %w", err)
	}
	dy := s.b.Param("dy", y.Type())
	grads := op.Grad([]*ir.Value{y}, []*ir.Value{dy}, append(append([]*ir.Value{}, s.x...), s.ws...))
	if f, err = s.b.Build(append([]*ir.Value{y}, grads...)...); err != nil {
		return nil, 0, fmt.Errorf("plan: %w", err)
	}
	return f, len(s.x), nil
}

// sum prices the nodes of a program whose results are its forward result, the gradients of inputs, and those
// of parameters.
func (p *pricer) sum(f *ir.Func, inputs int) piece {
	r := f.Results()
	done := reached{make(map[*ir.Node]bool, len(f.Nodes())), map[*ir.Value]bool{}}
	var out piece
	out.forward = p.reach(r[:1], done)
	out.input = p.reach(r[1:1+inputs], done)
	out.weight = p.reach(r[1+inputs:], done)
	return out
}

// reached holds the nodes that have been counted, and the values that have 8-bit copies.
type reached struct {
	nodes map[*ir.Node]bool
	short map[*ir.Value]bool
}

// reach prices the nodes that results need and that have not been counted yet.
func (p *pricer) reach(results []*ir.Value, done reached) float64 {
	total := 0.0
	var visit func(v *ir.Value)
	visit = func(v *ir.Value) {
		n := v.Node()
		if n == nil || done.nodes[n] {
			return
		}
		done.nodes[n] = true
		for _, in := range n.In() {
			visit(in)
		}
		total += p.node(n, done.short)
	}
	for _, v := range results {
		visit(v)
	}
	return total
}

func (s *sketch) build(k pieceKey) *ir.Value {
	switch k.kind {
	case normPiece:
		return s.norm(s.input(k.tokens, s.w.Model.Hidden))
	case residualPiece:
		return s.residual(k)
	case attentionPiece:
		return s.attention(k)
	case corePiece:
		return s.core(k)
	case mlpPiece:
		return s.mlp(k)
	case routerPiece:
		return s.router(k)
	case expertPiece:
		return s.experts(k)
	case embeddingPiece:
		return s.embedding(k)
	}
	return s.head(k)
}

func (s *sketch) value(name string, shape ...int) *ir.Value {
	return s.b.Param(name, ir.Type{DType: s.dtype, Shape: shape})
}

func (s *sketch) input(shape ...int) *ir.Value {
	v := s.value("x", shape...)
	s.x = append(s.x, v)
	return v
}

func (s *sketch) weight(shape ...int) *ir.Value {
	v := s.value("w", shape...)
	s.ws = append(s.ws, v)
	return v
}

func (s *sketch) indices(shape ...int) *ir.Value {
	return s.b.Param("ids", ir.Type{DType: array.I32, Shape: shape})
}

// linear returns a product with a weight.
func (s *sketch) linear(x *ir.Value, out int) *ir.Value {
	shape := x.Shape()
	return op.MatMul(x, s.weight(shape[len(shape)-1], out))
}

func (s *sketch) norm(x *ir.Value) *ir.Value {
	h := x.Shape()[1]
	if s.w.Model.LayerNorm {
		return op.LayerNorm(x, s.weight(h), s.weight(h), 1e-5)
	}
	return op.RMSNorm(x, s.weight(h), 1e-5)
}

// residual adds a branch to the residual stream, after dropout if there is any.
func (s *sketch) residual(k pieceKey) *ir.Value {
	x, y := s.input(k.tokens, s.w.Model.Hidden), s.input(k.tokens, s.w.Model.Hidden)
	if s.w.Software.Dropout {
		y = op.Mul(y, s.value("mask", k.tokens, s.w.Model.Hidden))
	}
	return op.Add(x, y)
}

func (s *sketch) attention(k pieceKey) *ir.Value {
	m := &s.w.Model
	if m.Scans() {
		return s.recurrent(k)
	}
	x := s.input(k.tokens, m.Hidden)
	heads, kv := ceil(m.Heads, k.tp), ceil(m.kvHeads(), k.tp)
	d, dv := m.headDim(), m.valueDim()
	if m.MLA() {
		kv = heads
	}
	q, key, v := s.projections(x, heads, kv)
	q, key = op.Reshape(q, k.batch, k.query, heads, d), op.Reshape(key, k.batch, k.query, kv, d)
	if m.QKNorm > 0 {
		q, key = op.RMSNorm(q, s.weight(d), 1e-5), op.RMSNorm(key, s.weight(d), 1e-5)
	}
	v = op.Reshape(v, k.batch, k.query, kv, dv)
	if m.Positions == 0 && !m.MLA() {
		q, key = op.RoPE(q, op.RoPEConfig{}), op.RoPE(key, op.RoPEConfig{})
	}
	// context parallelism brings the other devices' keys, which are inputs, not computed here
	if k.keys > k.query {
		key, v = s.input(k.batch, k.keys, kv, d), s.input(k.batch, k.keys, kv, dv)
	}
	o := s.scores(q, key, v, k.window)
	return s.linear(op.Reshape(o, k.tokens, heads*dv), m.Hidden)
}

// core returns attention alone.
func (s *sketch) core(k pieceKey) *ir.Value {
	m := &s.w.Model
	if m.Scans() {
		heads, groups := m.scanHeads(k.tp)
		return s.scan(s.input(k.batch, k.keys, heads, m.headDim()),
			s.input(k.batch, k.keys, groups, m.Recurrent.States))
	}
	heads, kv := ceil(m.Heads, k.tp), ceil(m.kvHeads(), k.tp)
	if m.MLA() {
		kv = heads
	}
	return s.scores(s.input(k.batch, k.query, heads, m.headDim()), s.input(k.batch, k.keys, kv, m.headDim()),
		s.input(k.batch, k.keys, kv, m.valueDim()), k.window)
}

// projections returns queries, keys and values; latent attention goes through low ranks, which are not split.
func (s *sketch) projections(x *ir.Value, heads, kv int) (q, k, v *ir.Value) {
	m := &s.w.Model
	d, dv := m.headDim(), m.valueDim()
	if !m.MLA() {
		p := op.Split(s.linear(x, (heads+2*kv)*d), 1, heads*d, kv*d, kv*d)
		return p[0], p[1], p[2]
	}
	l := &m.Latent
	q = x
	if l.QRank > 0 {
		q = s.norm(s.linear(x, l.QRank))
	}
	q = s.linear(q, heads*d)
	low := op.Split(s.linear(x, l.KVRank+l.Rope), 1, l.KVRank, l.Rope)
	latent := s.norm(low[0])
	turned := op.Expand(op.Reshape(low[1], x.Shape()[0], 1, l.Rope), x.Shape()[0], heads, l.Rope)
	up := op.Split(s.linear(latent, heads*(l.Nope+dv)), 1, heads*l.Nope, heads*dv)
	k = op.Concat([]*ir.Value{up[0], op.Reshape(turned, x.Shape()[0], heads*l.Rope)}, 1)
	return q, k, up[1]
}

// scores returns attention, fused or with its scores in memory. If it is not fused, products read heads in
// place by their strides.
func (s *sketch) scores(q, k, v *ir.Value, window int) *ir.Value {
	keys, query := k.Shape()[1], q.Shape()[1]
	if !s.w.Software.Unfused {
		// Balanced parts of a causal sequence attend to half of the keys on average.
		return op.Attention(q, k, v, op.AttentionConfig{Causal: !s.w.Model.Encoder, Window: window,
			Offset: (keys - query) / 2})
	}
	b, a, d := q.Shape()[0], q.Shape()[2], q.Shape()[3]
	dv := v.Shape()[3]
	if kv := k.Shape()[2]; kv != a {
		return op.Attention(q, k, v, op.AttentionConfig{Causal: !s.w.Model.Encoder, Offset: (keys - query) / 2})
	}
	q, k, v = op.Reshape(q, b, a, query, d), op.Reshape(k, b, a, keys, d), op.Reshape(v, b, a, keys, dv)
	p := op.Softmax(op.MatMulT(q, k, false, true), 3)
	if s.w.Software.Dropout {
		p = op.Mul(p, s.value("mask", b, a, query, keys))
	}
	return op.Reshape(op.MatMul(p, v), b, query, a, dv)
}

func (s *sketch) mlp(k pieceKey) *ir.Value {
	m := &s.w.Model
	x := s.input(k.tokens, m.Hidden)
	f := ceil(k.width, k.tp)
	return s.linear(s.activation(f, func(n int) *ir.Value { return s.linear(x, n) }), m.Hidden)
}

// activation returns the nonlinearity of a product of f columns; a gate has as many more.
func (s *sketch) activation(f int, product func(columns int) *ir.Value) *ir.Value {
	if !s.w.Model.Gated {
		return op.GELU(product(f), "tanh")
	}
	halves := op.Split(product(2*f), 1, f, f)
	return op.SwiGLU(halves[0], halves[1])
}

func (s *sketch) router(k pieceKey) *ir.Value {
	m := &s.w.Model
	return op.Softmax(s.linear(s.input(k.tokens, m.Hidden), m.Experts.Count), 1)
}

// experts returns everything except the exchange: rows sorted by destination device, sorted again by expert
// on arrival, the experts' products, and both orders undone. tokens counts a token once for each of its
// experts.
func (s *sketch) experts(k pieceKey) *ir.Value {
	m := &s.w.Model
	reorder := func(x *ir.Value) *ir.Value { return op.Embedding(s.indices(k.tokens), x) }
	x := reorder(reorder(s.input(k.tokens, m.Hidden)))
	sizes := s.indices(k.local)
	f := ceil(m.Experts.FFN, k.tp)
	a := s.activation(f, func(n int) *ir.Value {
		return op.GroupedMatMul(x, s.weight(k.local, m.Hidden, n),
			sizes)
	})
	y := reorder(reorder(op.GroupedMatMul(a, s.weight(k.local, f, m.Hidden), sizes)))
	return op.Mul(y, s.input(k.tokens, 1)) // weighted by the router
}

func (s *sketch) embedding(k pieceKey) *ir.Value {
	m := &s.w.Model
	return op.Embedding(s.indices(k.tokens), s.weight(padded(m.Vocab, k.tp), m.Hidden))
}

func (s *sketch) head(k pieceKey) *ir.Value {
	m := &s.w.Model
	x := s.input(k.tokens, m.Hidden)
	if m.Transform {
		x = op.GELU(s.linear(x, m.Hidden), "tanh")
	}
	x = s.norm(x)
	return op.CrossEntropy(s.linear(x, padded(m.Vocab, k.tp)), s.indices(k.tokens), op.CrossEntropyConfig{})
}

func ceil(a, b int) int { return (a + b - 1) / b }

// padded returns a device's shard of a vocabulary, which programs pad so that every shard is a multiple of
// 128.
func padded(vocab, tp int) int { return ceil(vocab, 128*tp) * 128 }
