package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// normals returns standard normal numbers.
func normals(rng *rand.Rand, dtype array.DType, shape ...int) array.Array {
	return fill(op.Arg{Type: op.Type{DType: array.F32, Shape: shape}}, dtype, rng)
}

// runs numbers packed sequences of random length, in order.
func runs(rng *rand.Rand, batch, seq int) array.Array {
	ids := make([]int32, batch*seq)
	for i := range ids {
		if i%seq != 0 {
			ids[i] = ids[i-1]
			if rng.IntN(max(2, seq/3)) == 0 {
				ids[i]++
			}
		}
	}
	return array.FromSlice(ids, batch, seq)
}

// attended returns the results of an attention and the gradients of its operands, by the kernels and by the
// definition.
func attended(t *testing.T, d *cpu.Device, dtype array.DType, c op.AttentionConfig, batch, seqQ, seqK, heads,
	kvHeads int, segments bool) (got, want []array.Array) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seqQ), uint64(seqK)))
	s := d.NewSession()
	xs := at(s, []array.Array{
		normals(rng, dtype, batch, seqQ, heads, 8), normals(rng, dtype, batch, seqK, kvHeads, 8),
		normals(rng, dtype, batch, seqK, kvHeads, 5),
	})
	if segments {
		c.QuerySegments, c.KeySegments = s.Tensor(runs(rng, batch, seqQ)), s.Tensor(runs(rng, batch, seqK))
	}
	out, lse := op.AttentionLSE(xs[0], xs[1], xs[2], c)
	dout := s.Tensor(normals(rng, dtype, out.Shape()...))
	node := out.Node()
	parts := node.Op().(op.Composite).Decompose(node.In())
	all := func(out, lse *op.Tensor) []array.Array {
		as := []array.Array{read(t, out), read(t, lse)}
		for _, g := range op.Grad([]*op.Tensor{out}, []*op.Tensor{dout}, xs) {
			as = append(as, read(t, g))
		}
		return as
	}
	return all(out, lse), all(parts[0], parts[1])
}

func TestAttentionIsItsDefinition(t *testing.T) {
	one, three := device(t, 1), device(t, 3)
	seqs := [][2]int{{1, 1}, {1, 7}, {7, 9}, {9, 7}, {63, 65}, {65, 63}, {130, 130}, {257, 257}}
	configs := []op.AttentionConfig{{}, {Causal: true}, {Causal: true, Scale: 0.2, Window: 5}, {Window: 64},
		{Causal: true, Offset: 40}, {Causal: true, Offset: -5}}
	for _, dtype := range []array.DType{array.F64, array.F32} {
		for _, seq := range seqs {
			for i, c := range configs {
				heads := [][2]int{{1, 1}, {4, 2}, {3, 1}}[i%3]
				segments := i%2 == 1
				name := fmt.Sprintf("%v %v heads %v %+v", dtype, seq, heads, c)
				got, want := attended(t, one, dtype, c, 2, seq[0], seq[1], heads[0], heads[1], segments)
				again, _ := attended(t, three, dtype, c, 2, seq[0], seq[1], heads[0], heads[1], segments)
				for k := range got {
					if e := farthest(got[k], want[k]); !(e <= tolerance(dtype)) {
						t.Errorf("%s: result %d: error %.3g", name, k, e)
					}
					same(t, name, again[k], got[k])
				}
			}
		}
	}
}

// farthest returns the largest error, relative to the largest number if that is above one: the gradients of a
// query that sees a single key are zero but for rounding.
func farthest(got, want array.Array) float64 {
	far, top := 0.0, 1.0
	for i := range want.Len() {
		if g, w := got.At(i), want.At(i); g != w {
			far, top = max(far, math.Abs(g-w)), max(top, math.Abs(w))
		}
	}
	return far / top
}

// TestAttentionUnseen: queries that see no key give zeros, and gradients of any order stay finite.
func TestAttentionUnseen(t *testing.T) {
	s := device(t, 2).NewSession()
	rng := rand.New(rand.NewPCG(1, 2))
	xs := at(s, []array.Array{
		normals(rng, array.F64, 1, 3, 2, 4), normals(rng, array.F64, 1, 5, 2, 4), normals(rng, array.F64, 1, 5, 2,
			4)})
	out, lse := op.AttentionLSE(xs[0], xs[1], xs[2], op.AttentionConfig{Causal: true, Offset: -2})
	for i, x := range read(t, out).Float64s() {
		if seen := i >= 2*2*4; seen != (x != 0) {
			t.Errorf("element %d is %g", i, x)
		}
	}
	for i, x := range read(t, lse).Float64s() {
		if seen := i%3 == 2; seen == math.IsInf(x, -1) {
			t.Errorf("log-sum-exp %d is %g", i, x)
		}
	}
	first := op.Grad([]*op.Tensor{op.Square(out)}, nil, xs)
	second := op.Grad(first, nil, xs)
	for i, g := range append(first, second...) {
		for _, x := range read(t, g).Float64s() {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("gradient %d: %v", i, read(t, g))
			}
		}
	}
}

// TestAttentionCache: one query at a time over keys that are not all filled is the whole at once.
func TestAttentionCache(t *testing.T) {
	s := device(t, 2).NewSession()
	rng := rand.New(rand.NewPCG(5, 6))
	const seq, room = 9, 16
	q, k, v := normals(rng, array.F64, 1, seq, 4, 8), normals(rng, array.F64, 1, room, 2, 8), normals(rng,
		array.F64, 1, room, 2, 8)
	keys, values := s.Tensor(k), s.Tensor(v)
	whole := op.Attention(s.Tensor(q), keys, values, op.AttentionConfig{Causal: true})
	for i := range seq {
		query := op.Narrow(s.Tensor(q), 1, i, i+1)
		start := s.Tensor(array.Scalar(int64(i)))
		got := op.Attention(query, keys, values, op.AttentionConfig{Causal: true, Start: start})
		if e := distance(read(t, got), read(t, op.Narrow(whole, 1, i, i+1))); e > 1e-14 {
			t.Errorf("query %d: relative error %.3g", i, e)
		}
	}
}

// TestAttentionJoins: attentions over parts of the keys, weighted by lse, are that over all, and so is the
// gradient.
func TestAttentionJoins(t *testing.T) {
	s := device(t, 2).NewSession()
	rng := rand.New(rand.NewPCG(5, 6))
	xs := at(s, []array.Array{
		normals(rng, array.F64, 2, 6, 2, 8), normals(rng, array.F64, 2, 10, 2, 8), normals(rng, array.F64, 2, 10, 2,
			8)})
	whole := op.Attention(xs[0], xs[1], xs[2], op.AttentionConfig{})
	var outs, lses []*op.Tensor
	for _, part := range [][2]int{{0, 4}, {4, 10}} {
		out, lse := op.AttentionLSE(xs[0], op.Narrow(xs[1], 1, part[0], part[1]),
			op.Narrow(xs[2], 1, part[0], part[1]), op.AttentionConfig{})
		outs, lses = append(outs, out), append(lses, op.Reshape(op.Transpose(lse), 2, 6, 2, 1))
	}
	weight := op.Sigmoid(op.Sub(lses[0], lses[1]))
	joined := op.Add(op.Mul(outs[0], weight), op.Mul(outs[1], op.Sub(op.OnesLike(weight), weight)))
	got := append(op.Grad([]*op.Tensor{op.Square(joined)}, nil, xs), joined)
	want := append(op.Grad([]*op.Tensor{op.Square(whole)}, nil, xs), whole)
	for i := range got {
		if e := distance(read(t, got[i]), read(t, want[i])); e > 1e-13 {
			t.Errorf("result %d: relative error %.3g", i, e)
		}
	}
}

func TestAttentionMistakes(t *testing.T) {
	f := func(shape ...int) op.Type { return op.Type{DType: array.F32, Shape: shape} }
	ids := op.Type{DType: array.I32, Shape: array.Shape{2, 5}}
	for _, c := range []struct {
		q, k, v op.Type
		config  func(b *ir.Builder) op.AttentionConfig
		want    string
	}{
		{f(2, 5, 8), f(2, 5, 2, 4), f(2, 5, 2, 4), nil, "want [batch seq heads dim]"},
		{f(2, 5, 4, 4), f(2, 5, 2, 6), f(2, 5, 2, 4), nil,
			"cannot contract queries [2,5,4,4] with keys [2,5,2,6]: sizes 4 and 6"},
		{f(2, 5, 4, 4), f(2, 5, 3, 4), f(2, 5, 3, 4), nil, "not a multiple of the 3"},
		{f(2, 5, 4, 4), f(2, 5, 0, 4), f(2, 5, 0, 4), nil, "not a multiple of the 0"},
		{f(2, 5, 4, 4), f(2, 6, 2, 4), f(2, 5, 2, 4), nil, "do not fit values"},
		{f(2, 5, 4, 4), f(3, 5, 2, 4), f(3, 5, 2, 4), nil, "batches"},
		{f(2, 5, 4, 4), f(2, 5, 2, 4), f(2, 5, 2, 4),
			func(*ir.Builder) op.AttentionConfig { return op.AttentionConfig{Window: -1} }, "window -1"},
		{f(2, 5, 4, 4), f(2, 5, 2, 4), f(2, 5, 2, 4), func(b *ir.Builder) op.AttentionConfig {
			return op.AttentionConfig{QuerySegments: b.Param("", ids)}
		}, "want 5 operands: got 4"},
		{f(2, 5, 4, 4), f(2, 6, 2, 4), f(2, 6, 2, 4), func(b *ir.Builder) op.AttentionConfig {
			return op.AttentionConfig{QuerySegments: b.Param("", ids), KeySegments: b.Param("", ids)}
		}, "want i32[2,6]"},
		{f(2, 5, 4, 4), f(2, 5, 2, 4), f(2, 5, 2, 4), func(b *ir.Builder) op.AttentionConfig {
			return op.AttentionConfig{Start: b.Param("", ids)}
		}, "want an integer scalar"},
	} {
		b := ir.NewBuilder("main")
		var config op.AttentionConfig
		if c.config != nil {
			config = c.config(b)
		}
		_, err := b.Build(op.Attention(b.Param("", c.q), b.Param("", c.k), b.Param("", c.v), config))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
