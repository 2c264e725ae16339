package nn_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func f64s(shape []int, values ...float64) array.Array { return array.FromSlice(values, shape...) }

// TestContrastive: pairs that agree cost less than the same rows in another order.
func TestContrastive(t *testing.T) {
	s := newSession(t)
	x := s.Tensor(f64s([]int{3, 2}, 1, 0, 0, 2, -1, 0))
	y := s.Tensor(f64s([]int{3, 2}, 0, 2, -1, 0, 1, 0))
	same, other := read(t, nn.Contrastive(x, x, 0.1)).At(0), read(t, nn.Contrastive(x, y, 0.1)).At(0)
	if !(same < 0.01 && other > 5) {
		t.Errorf("got %v for pairs and %v for others", same, other)
	}
}

func TestConvLayers(t *testing.T) {
	s := newSession(t)
	in := nn.NewInit(nn.Config{Scope: s, Seed: 1})
	net := nn.Sequential{
		nn.NewConv2D(in.Index(0), 1, 4, 3, op.ConvConfig{Padding: []int{1}}), nn.NewGroupNorm(in.Index(1), 2, 4,
			1e-5),
		nn.Func(op.ReLU), nn.NewConvTranspose2D(in.Index(2), 4, 2, 2,
			op.ConvConfig{Stride: []int{2}}), nn.Func(nn.Flatten),
		nn.NewLinear(in.Index(3), 2*16*16, 5),
	}
	y := net.Forward(s.Tensor(array.New(array.F32, 3, 1, 8, 8)))
	if got := read(t, y).Shape(); !got.Equal(array.Shape{3, 5}) {
		t.Errorf("got %v, want [3,5]", got)
	}
	seq := nn.NewConv1D(in.At("s"), 4, 6, 3, op.ConvConfig{Groups: 2})
	if got := seq.Weight.Type.Shape; !got.Equal(array.Shape{6, 2, 3}) {
		t.Errorf("weight: got %v, want [6,2,3]", got)
	}
	if got := read(t, seq.Forward(s.Tensor(array.New(array.F32, 2, 4, 10)))).Shape(); !got.Equal(array.Shape{2,
		6, 8}) {
		t.Errorf("got %v, want [2,6,8]", got)
	}
	if err := in.Err(); err != nil {
		t.Error(err)
	}
}

// TestMultiHeadAttention: what has another segment is not seen.
func TestMultiHeadAttention(t *testing.T) {
	s := newSession(t)
	in := nn.NewInit(nn.Config{Scope: s, Seed: 1})
	a := nn.NewMultiHeadAttention(in, 8, 2)
	x := op.Normal(s, op.Key{Seed: 1}, array.F32, array.Shape{1, 3, 8})
	memory := op.Normal(s, op.Key{Seed: 2}, array.F32, array.Shape{1, 5, 8})
	short := op.Narrow(memory, 1, 0, 3)
	queries := s.Tensor(array.FromSlice([]int32{1, 1, 1}, 1, 3))
	keys := s.Tensor(array.FromSlice([]int32{1, 1, 1, 0, 0}, 1, 5))
	want := read(t, a.Forward(x, short, nil, nil)).Float64s()
	for i, got := range read(t, a.Forward(x, memory, queries, keys)).Float64s() {
		if math.Abs(got-want[i]) > 1e-5 {
			t.Fatalf("element %d: got %v, want %v", i, got, want[i])
		}
	}
}

func TestFreeze(t *testing.T) {
	in := nn.NewInit(nn.Config{})
	nn.NewLinear(in.At("a"), 2, 2)
	nn.NewLinear(in.At("b"), 2, 2)
	if err := nn.Freeze(in.Params(), "a.*"); err != nil {
		t.Fatal(err)
	}
	if got := nn.Trainable(in.Params()); len(got) != 2 || got[0].Name != "b.weight" {
		t.Errorf("got %v", got)
	}
	if err := nn.Freeze(in.Params(), "c.*"); err == nil ||
		!strings.Contains(err.Error(), `"c.*" names no parameter`) {
		t.Errorf("got %v", err)
	}
}

func ExampleSummary() {
	in := nn.NewInit(nn.Config{})
	nn.NewLinear(in.At("up"), 64, 256)
	nn.NewLayerNorm(in.At("norm"), 256, 1e-6)
	if err := nn.Freeze(in.Params(), "norm.*"); err != nil {
		fmt.Println(err)
	}
	fmt.Print(nn.Summary(in.Params()))
	// Output:
	// layer   shapes                             parameters  bytes
	// up      weight f32[256,64], bias f32[256]  16640       66560
	// norm    weight f32[256], bias f32[256]     512         2048
	// all                                        17152       68608
	// frozen                                     512
}
