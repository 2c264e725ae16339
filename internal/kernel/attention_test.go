package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// attentionCase is an attention on random numbers, with cotangents.
type attentionCase[T Float] struct {
	Attention[T]
	AttentionGrad[T]
}

func newAttentionCase[T Float](a Attention[T]) *attentionCase[T] {
	r := rand.New(rand.NewPCG(7, uint64(a.SeqQ*1000+a.SeqK)))
	fill := func(n int) []T {
		x := make([]T, n)
		for i := range x {
			x[i] = T(r.NormFloat64())
		}
		return x
	}
	a.Scale = T(1 / math.Sqrt(float64(a.Dim)))
	nq, nk := a.Batch*a.SeqQ*a.Heads, a.Batch*a.SeqK*a.KVHeads
	a.Q, a.K, a.V = fill(nq*a.Dim), fill(nk*a.Dim), fill(nk*a.DimV)
	if a.Mask.SegmentsQ != nil {
		a.Mask.SegmentsQ = packedSegments(r, a.Batch, a.SeqQ)
		a.Mask.SegmentsK = packedSegments(r, a.Batch, a.SeqK)
	}
	return &attentionCase[T]{a, AttentionGrad[T]{
		Out: make([]T, nq*a.DimV), LSE: make([]T, nq), DOut: fill(nq * a.DimV), DLSE: fill(nq),
		DQ: fill(nq * a.Dim), DK: fill(nk * a.Dim), DV: fill(nk * a.DimV),
	}}
}

// packedSegments numbers runs of random length.
func packedSegments(r *rand.Rand, batch, seq int) []int32 {
	ids := make([]int32, batch*seq)
	for i := range ids {
		if i%seq != 0 {
			ids[i] = ids[i-1]
			if r.IntN(max(2, seq/3)) == 0 {
				ids[i]++
			}
		}
	}
	return ids
}

func (c *attentionCase[T]) run(p *Pool) {
	c.Forward(p, c.Out, c.LSE)
	c.Backward(p, c.AttentionGrad)
}

// sees is the definition of the mask.
func (c *attentionCase[T]) sees(b, i, j int) bool {
	m := c.Mask
	at := m.Offset + i
	return (!m.Causal && m.Window == 0 || j <= at) && (m.Window == 0 || j > at-m.Window) &&
		(m.SegmentsQ == nil || m.SegmentsQ[b*c.SeqQ+i] == m.SegmentsK[b*c.SeqK+j])
}

// want computes everything by the definition, in float64.
func (c *attentionCase[T]) want() *attentionCase[float64] {
	wide := func(x []T) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	w := &attentionCase[float64]{AttentionGrad: AttentionGrad[float64]{
		Out: make([]float64, len(c.Out)), LSE: make([]float64, len(c.LSE)),
		DQ: make([]float64, len(c.DQ)), DK: make([]float64, len(c.DK)), DV: make([]float64, len(c.DV)),
		DOut: wide(c.DOut), DLSE: wide(c.DLSE),
	}}
	w.Q, w.K, w.V = wide(c.Q), wide(c.K), wide(c.V)
	for b := range c.Batch {
		for h := range c.Heads {
			for i := range c.SeqQ {
				c.wantRow(w, b, h, i)
			}
		}
	}
	return w
}

func (c *attentionCase[T]) wantRow(w *attentionCase[float64], b, h, i int) {
	q := ((b*c.SeqQ+i)*c.Heads + h)
	kv := func(j int) int { return (b*c.SeqK+j)*c.KVHeads + h/c.group() }
	row := func(x []float64, at, n int) []float64 { return x[at*n : (at+1)*n] }
	s, sum := make([]float64, c.SeqK), 0.0
	for j := range s {
		if c.sees(b, i, j) {
			s[j] = math.Exp(float64(c.Scale) * Dot(row(w.Q, q, c.Dim), row(w.K, kv(j), c.Dim)))
			sum += s[j]
		}
	}
	at := (b*c.Heads+h)*c.SeqQ + i
	w.LSE[at] = math.Log(sum)
	if sum == 0 {
		return
	}
	for j := range s {
		s[j] /= sum
		Axpy(row(w.Out, q, c.DimV), s[j], row(w.V, kv(j), c.DimV))
		Axpy(row(w.DV, kv(j), c.DimV), s[j], row(w.DOut, q, c.DimV))
	}
	delta := Dot(row(w.Out, q, c.DimV), row(w.DOut, q, c.DimV)) - w.DLSE[at]
	for j := range s {
		ds := float64(c.Scale) * s[j] * (Dot(row(w.DOut, q, c.DimV), row(w.V, kv(j), c.DimV)) - delta)
		Axpy(row(w.DQ, q, c.Dim), ds, row(w.K, kv(j), c.Dim))
		Axpy(row(w.DK, kv(j), c.Dim), ds, row(w.Q, q, c.Dim))
	}
}

func attentionCases[T Float]() []Attention[T] {
	segments := []int32{}
	type m = AttentionMask
	var cases []Attention[T]
	for _, seq := range [][2]int{{1, 1}, {1, 7}, {7, 9}, {9, 7}, {63, 65}, {65, 63}, {130, 130}, {257, 257},
		{1, 2500}, {3, 4500}} {
		for i, mask := range []m{{}, {Causal: true}, {Causal: true, Window: 5}, {Window: 64, Offset: 3},
			{Causal: true, Offset: 40}, {Causal: true, Offset: -3}, {SegmentsQ: segments},
			{Causal: true, SegmentsQ: segments}, {Causal: true, Offset: 3000, Window: 2000}} {
			heads := [][2]int{{1, 1}, {4, 2}, {6, 1}, {2, 2}}[(i+seq[0])%4]
			cases = append(cases, Attention[T]{Batch: 2, SeqQ: seq[0], SeqK: seq[1], Heads: heads[0],
				KVHeads: heads[1], Dim: 8, DimV: 5, Mask: mask})
		}
	}
	return append(cases,
		Attention[T]{Batch: 1, SeqQ: 3, SeqK: 4, Heads: 150, KVHeads: 2, Dim: 16, DimV: 16},
		Attention[T]{Batch: 1, SeqQ: 700, SeqK: 700, Heads: 1, KVHeads: 1, Dim: 64, DimV: 64,
			Mask: m{Causal: true}},
		Attention[T]{Batch: 1, SeqQ: 300, SeqK: 0, Heads: 2, KVHeads: 1, Dim: 4, DimV: 4},
		Attention[T]{Batch: 1, SeqQ: 0, SeqK: 9, Heads: 2, KVHeads: 1, Dim: 4, DimV: 4},
		Attention[T]{Batch: 0, SeqQ: 2, SeqK: 9, Heads: 2, KVHeads: 1, Dim: 4, DimV: 4})
}

func TestAttention(t *testing.T) {
	checkAttention[float32](t, 1e-5)
	if !testing.Short() { // the same code, twice as long
		checkAttention[float64](t, 1e-12)
	}
}

func checkAttention[T Float](t *testing.T, tol float64) {
	pool := NewPool(3)
	defer pool.Close()
	for _, a := range attentionCases[T]() {
		name := fmt.Sprintf("%T %d %d heads %d/%d %+v", T(0), a.SeqQ, a.SeqK, a.Heads, a.KVHeads, a.Mask)
		one, many := newAttentionCase(a), newAttentionCase(a)
		one.run(nil)
		many.run(pool)
		want := one.want()
		for i, got := range one.results() {
			if d := farthest(got, want.results()[i]); !(d <= tol) {
				t.Errorf("%s: result %d is off by %g", name, i, d)
			}
			if !slices.Equal(got, many.results()[i]) {
				t.Errorf("%s: result %d depends on the number of threads", name, i)
			}
		}
	}
}

func (c *attentionCase[T]) results() [][]T { return [][]T{c.Out, c.LSE, c.DQ, c.DK, c.DV} }

// farthest returns the largest error relative to the largest element.
func farthest[T Float](got []T, want []float64) float64 {
	far, top := 0.0, 1.0
	for i, g := range got {
		if float64(g) == want[i] {
			continue
		}
		far, top = max(far, math.Abs(float64(g)-want[i])), max(top, math.Abs(want[i]))
	}
	return far / top
}

// BenchmarkAttention times both passes.
func BenchmarkAttention(b *testing.B) {
	for _, x := range []struct {
		name string
		Attention[float32]
	}{
		{"gpt2", Attention[float32]{Batch: 8, SeqQ: 256, SeqK: 256, Heads: 4, KVHeads: 4,
			Mask: AttentionMask{Causal: true}}},
		{"1k", Attention[float32]{Batch: 1, SeqQ: 1024, SeqK: 1024, Heads: 4, KVHeads: 4,
			Mask: AttentionMask{Causal: true}}},
		{"4k", Attention[float32]{Batch: 1, SeqQ: 4096, SeqK: 4096, Heads: 1, KVHeads: 1,
			Mask: AttentionMask{Causal: true}}},
		{"16k", Attention[float32]{Batch: 1, SeqQ: 16384, SeqK: 16384, Heads: 1, KVHeads: 1,
			Mask: AttentionMask{Causal: true}}},
		{"16k-window", Attention[float32]{Batch: 1, SeqQ: 16384, SeqK: 16384, Heads: 1, KVHeads: 1,
			Mask: AttentionMask{Causal: true, Window: 512}}},
		{"decode", Attention[float32]{Batch: 1, SeqQ: 1, SeqK: 4096, Heads: 32, KVHeads: 8,
			Mask: AttentionMask{Causal: true, Offset: 4000}}},
		{"decode-mha", Attention[float32]{Batch: 8, SeqQ: 1, SeqK: 1024, Heads: 12, KVHeads: 12,
			Mask: AttentionMask{Causal: true, Offset: 1000}}},
		{"decode-one", Attention[float32]{Batch: 1, SeqQ: 1, SeqK: 32768, Heads: 1, KVHeads: 1}},
	} {
		x.Dim, x.DimV = 64, 64
		c := newAttentionCase(x.Attention)
		for _, threads := range []int{1, 2} {
			pool := NewPool(threads)
			c.Forward(pool, c.Out, c.LSE)
			flops := 4 * float64(c.Batch*c.Heads*c.SeqQ*c.SeqK*c.Dim)
			if c.Mask.Causal && c.SeqQ > 1 {
				flops /= 2
			}
			b.Run(fmt.Sprintf("%s/forward/%d", x.name, threads), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.Forward(pool, c.Out, c.LSE)
				}
				b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "Gflop/s")
			})
			if c.SeqQ > 1 {
				b.Run(fmt.Sprintf("%s/backward/%d", x.name, threads), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						c.Backward(pool, c.AttentionGrad)
					}
					b.ReportMetric(2.5*flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "Gflop/s")
				})
			}
			pool.Close()
		}
	}
}
