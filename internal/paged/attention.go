package paged

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/nn"
)

// heads describes attention between its projections, on one device; all is the number of query heads of all
// devices.
type heads struct {
	queries, keys, dim, valueDim int
	all                          int
	scale, cap                   float32
	window                       int
	rope                         *rope
}

func (b *builder) heads(h nn.Heads, valueDim, turned int) heads {
	if h.Mask != nn.Causal {
		b.fail(fmt.Errorf("attention to what comes after cannot be served"))
	}
	scale := h.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(h.Dim))
	}
	return heads{
		queries:  b.share(h.Queries).len(),
		keys:     b.ownKeys(h.Keys).len(),
		all:      h.Queries,
		dim:      h.Dim,
		valueDim: valueDim,
		scale:    float32(scale),
		cap:      float32(h.Cap),
		window:   h.Window,
		rope:     newRope(h, turned),
	}
}

// attention computes queries, keys and values from the hidden states, and the output projection.
type attention interface {
	heads() heads
	// project computes the step's queries, keys and values from rows x, rotated by their positions.
	project(s *Step, x []float32)
	output() projection
	// widest returns the longest intermediate row.
	widest() int
}

func (b *builder) attention(a nn.Attender) attention {
	switch a := a.(type) {
	case *nn.Attention:
		h := a.Heads
		q, k := b.share(h.Queries).times(h.Dim, 0), b.ownKeys(h.Keys).times(h.Dim, 0)
		return &split{h: b.heads(h, h.Dim, h.Dim), o: b.shared(a.O, b.config.Hidden),
			qkv:   b.product(b.pieceOf(a.Q, q), b.pieceOf(a.K, k), b.pieceOf(a.V, k)),
			qNorm: b.rms(a.QNorm), kNorm: b.rms(a.KNorm), qWide: b.rms(a.QWide), kWide: b.rms(a.KWide),
			qHeads: b.headNorms(a.QHeads, h.Dim, b.share(h.Queries)),
			kHeads: b.headNorms(a.KHeads, h.Dim, b.ownKeys(h.Keys)), bound: float32(a.Bound)}
	case *nn.FusedAttention:
		return &split{h: b.heads(a.Heads, a.Heads.Dim, a.Heads.Dim), qkv: b.product(b.fusedRows(a)...),
			o: b.shared(a.Proj, b.config.Hidden)}
	case *nn.LatentAttention:
		return b.latent(a)
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", a))
	return nil
}

// fusedRows returns the rows of the fused matrix for queries, keys and values, in this order: the matrix
// stores them so, or the queries of each key head together with its key and its value.
func (b *builder) fusedRows(a *nn.FusedAttention) (ps []piece) {
	h := a.Heads
	q, k := b.share(h.Queries), b.ownKeys(h.Keys)
	take := func(rows span) { ps = append(ps, b.pieceOf(a.QKV, rows)) }
	if !a.PerHead {
		take(q.times(h.Dim, 0))
		take(k.times(h.Dim, h.Queries*h.Dim))
		take(k.times(h.Dim, (h.Queries+h.Keys)*h.Dim))
		return ps
	}
	each := h.Queries / h.Keys
	for i := q.lo; i < q.hi; i++ {
		take(span{i, i + 1}.times(h.Dim, i/each*2*h.Dim))
	}
	for _, part := range []int{0, 1} { // keys, then values
		for i := k.lo; i < k.hi; i++ {
			at := i*(each+2) + each + part
			take(span{at, at + 1}.times(h.Dim, 0))
		}
	}
	return ps
}

// split is attention with one fused product for queries, keys and values.
type split struct {
	h                          heads
	qkv, o                     projection
	qNorm, kNorm, qWide, kWide norm
	qHeads, kHeads             []norm  // of each head, with a mean
	bound                      float32 // of all elements; 0 means none
}

func (a *split) heads() heads       { return a.h }
func (a *split) output() projection { return a.o }
func (a *split) widest() int        { return a.qkv.out() }

func (a *split) project(s *Step, x []float32) {
	n, h := s.count, a.h
	all := s.inner[:n*a.qkv.out()]
	s.multiply(a.qkv, all, x, n)
	queries, keys := h.queries*h.dim, h.keys*h.dim
	s.rows(n, a.qkv.out(), func(i int) {
		row := all[i*a.qkv.out() : (i+1)*a.qkv.out()]
		q, k, v := s.q[i*queries:(i+1)*queries], s.k[i*keys:(i+1)*keys], s.v[i*keys:(i+1)*keys]
		copy(q, row)
		copy(k, row[queries:])
		copy(v, row[queries+keys:])
		a.qWide.each(q)
		a.kWide.each(k)
		if a.bound != 0 {
			clamp(q, a.bound)
			clamp(k, a.bound)
			clamp(v, a.bound)
		}
		a.qNorm.each(q)
		a.kNorm.each(k)
		eachHead(a.qHeads, q)
		eachHead(a.kHeads, k)
		h.rope.turn(q, s.position[i], h.dim)
		h.rope.turn(k, s.position[i], h.dim)
	})
}

// eachHead normalises every head by its own norm.
func eachHead(norms []norm, x []float32) {
	for i, n := range norms {
		w := len(n.weight)
		n.row(x[i*w:(i+1)*w], x[i*w:(i+1)*w])
	}
}

// clamp limits elements to ±by.
func clamp(x []float32, by float32) {
	for i, v := range x {
		x[i] = min(max(v, -by), by)
	}
}

// maxHead is the largest size of a head.
const maxHead = 1024
