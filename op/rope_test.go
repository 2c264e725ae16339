package op_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// TestRoPEFarAway compares with the formula at positions where angles are large.
func TestRoPEFarAway(t *testing.T) {
	s := device(t, 2).NewSession()
	x := normals(rand.New(rand.NewPCG(1, 1)), array.F64, 1, 150, 1, 8)
	const offset, theta = 100000, 500000.0
	for _, style := range []string{"", "interleaved"} {
		got := read(t, op.RoPE(s.Tensor(x), op.RoPEConfig{Theta: theta, Style: style, Offset: offset}))
		for i := range got.Len() {
			position, e := i/8, i%8
			pair, partner, sign := e%4, i+4-e/4*8, float64(e/4*2-1)
			if style != "" {
				pair, partner, sign = e/2, i^1, float64(e%2*2-1)
			}
			sin, cos := math.Sincos(float64(offset+position) * math.Pow(theta, -float64(pair)/4))
			want := x.At(i)*cos + sign*x.At(partner)*sin
			if d := math.Abs(got.At(i) - want); d > 1e-12 {
				t.Fatalf("style %q, element %d: got %g, want %g", style, i, got.At(i), want)
			}
		}
	}
}

// TestRoPEPositions: positions that count up, an offset and a tensor that holds it are the same.
func TestRoPEPositions(t *testing.T) {
	for _, dtype := range []array.DType{array.F64, array.F32} {
		s := device(t, 3).NewSession()
		x := s.Tensor(normals(rand.New(rand.NewPCG(2, 1)), dtype, 2, 200, 3, 16))
		ids := make([]int64, 2*200)
		for i := range ids {
			ids[i] = int64(i%200) + 7
		}
		want := read(t, op.RoPE(x, op.RoPEConfig{Offset: 7, Dim: 8}))
		for i, c := range []op.RoPEConfig{
			{Dim: 8, Positions: s.Tensor(array.FromSlice(ids, 2, 200))},
			{Dim: 8, Positions: s.Tensor(array.FromSlice(ids[:200], 200))},
			{Dim: 8, Start: s.Tensor(array.Scalar(int64(7)))},
			{Dim: 8, Start: s.Tensor(array.Scalar(int32(5))), Offset: 2, Freqs: []float64{1, 0.1, 0.01, 0.001}},
		} {
			if e := distance(read(t, op.RoPE(x, c)), want); e > tolerance(dtype)/10 {
				t.Errorf("%v config %d: relative error %.3g", dtype, i, e)
			}
		}
	}
}

// TestRoPEKeepsLength: a turn changes no pair's length, and its gradient turns back.
func TestRoPEKeepsLength(t *testing.T) {
	s := device(t, 1).NewSession()
	x := s.Tensor(normals(rand.New(rand.NewPCG(3, 1)), array.F64, 2, 9, 3, 8)).Track()
	y := op.RoPE(x, op.RoPEConfig{Offset: 11})
	back := op.Grad([]*op.Tensor{y}, []*op.Tensor{y.Detach()}, []*op.Tensor{x})[0]
	if e := distance(read(t, back), read(t, x)); e > 1e-14 {
		t.Errorf("turned and turned back: relative error %.3g", e)
	}
}

func TestRoPEMistakes(t *testing.T) {
	for _, c := range []struct {
		shape  []int
		config op.RoPEConfig
		want   string
	}{
		{[]int{2, 5, 8}, op.RoPEConfig{}, "want floats [batch seq heads dim]"},
		{[]int{2, 5, 3, 7}, op.RoPEConfig{}, "cannot pair 7 elements"},
		{[]int{2, 5, 3, 8}, op.RoPEConfig{Dim: 10}, "cannot pair 10 elements"},
		{[]int{2, 5, 3, 8}, op.RoPEConfig{Style: "other"}, `style "other"`},
		{[]int{2, 5, 3, 8}, op.RoPEConfig{Freqs: []float64{1}}, "1 frequencies"},
	} {
		b := ir.NewBuilder("main")
		_, err := b.Build(op.RoPE(b.Param("", op.Type{DType: array.F32, Shape: c.shape}), c.config))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
