package nn_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func newSession(t testing.TB) *cpu.Session {
	d := cpu.NewDevice(cpu.Config{Threads: 2})
	t.Cleanup(d.Close)
	return d.NewSession()
}

func read(t testing.TB, x *op.Tensor) array.Array {
	t.Helper()
	a, err := cpu.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func Example() {
	in := nn.NewInit(nn.Config{})
	nn.NewLinear(in.At("up"), 64, 256)
	nn.NewRMSNorm(in.At("norm"), 256, 1e-6)
	for _, p := range in.Params() {
		fmt.Println(p.Name, p.Type)
	}
	// Output:
	// up.weight f32[256,64]
	// up.bias f32[256]
	// norm.weight f32[256]
}

// TestFirstValue depends on seed and name only, not on what else the model has.
func TestFirstValue(t *testing.T) {
	s := newSession(t)
	a, b := nn.NewInit(nn.Config{Scope: s, Seed: 4}), nn.NewInit(nn.Config{Scope: s, Seed: 4})
	nn.NewEmbedding(b.At("other"), 3, 5)
	x, y := nn.NewLinear(a.At("up"), 6, 7), nn.NewLinear(b.At("up"), 6, 7)
	if got, want := read(t, y.Weight.Value).String(), read(t, x.Weight.Value).String(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, v := range read(t, x.Weight.Value).Float64s() {
		if math.Abs(v) > 1/math.Sqrt(6) {
			t.Errorf("weight %v is out of bounds", v)
		}
	}
}

func TestInitErrors(t *testing.T) {
	s := newSession(t)
	in := nn.NewInit(nn.Config{Scope: s})
	nn.NewRMSNorm(in.At("a"), 2, 1)
	nn.NewRMSNorm(in.At("a"), 2, 1)
	if err := in.Err(); err == nil || !strings.Contains(err.Error(), `"a.weight" is made twice`) {
		t.Errorf("twice: got %v", err)
	}
	gone := errors.New("gone")
	in = nn.NewInit(nn.Config{Load: func(string, op.Type) (*op.Tensor, error) { return nil, gone }})
	nn.NewRMSNorm(in, 2, 1)
	if !errors.Is(in.Err(), gone) {
		t.Errorf("load: got %v, want %v", in.Err(), gone)
	}
	in = nn.NewInit(nn.Config{Load: func(string, op.Type) (*op.Tensor,
		error) {
		return s.Tensor(array.New(array.F32, 3)), nil
	}})
	nn.NewRMSNorm(in, 2, 1)
	if err := in.Err(); err == nil || !strings.Contains(err.Error(), "got f32[3], want f32[2]") {
		t.Errorf("shape: got %v", err)
	}
}

func TestFrozen(t *testing.T) {
	s := newSession(t)
	for _, frozen := range []bool{false, true} {
		in := nn.NewInit(nn.Config{Scope: s, Frozen: frozen})
		y := nn.NewLinear(in, 2, 3).Forward(s.Tensor(array.New(array.F32, 1, 2)))
		if y.Tracked() == frozen {
			t.Errorf("frozen %v: the result is tracked: %v", frozen, y.Tracked())
		}
	}
}

// TestMoE compares with every expert computing every token.
func TestMoE(t *testing.T) {
	s := newSession(t)
	for _, raw := range []bool{false, true} {
		c := nn.MoEConfig{Hidden: 6, Intermediate: 10, Experts: 5, PerToken: 2,
			Routing: nn.Routing{RawWeights: raw}}
		m := nn.NewMoE(nn.NewInit(nn.Config{Scope: s, Seed: 3}).WithNormal(0.7), c)
		for _, shape := range []array.Shape{{2, 7, 6}, {3, 6}, {0, 6}} {
			x := op.Normal(s, op.Key{Seed: 1}, array.F32, shape)
			got, want := read(t, m.Forward(x)), read(t, dense(m, op.Reshape(x, shape.Len()/6, 6)))
			if !got.Shape().Equal(shape) {
				t.Errorf("got shape %v, want %v", got.Shape(), shape)
			}
			for i := range want.Len() {
				if math.Abs(got.At(i)-want.At(i)) > 1e-5 {
					t.Fatalf("raw %v, shape %v, element %d: got %v, want %v", raw, shape, i, got.At(i), want.At(i))
				}
			}
		}
	}
}

// dense returns the layer's definition: a sum over all experts, those not chosen with weight 0.
func dense(m *nn.MoE, x *op.Tensor) *op.Tensor {
	probs := op.Softmax(m.Router.Forward(x), -1)
	top, which := op.TopK(probs, m.Config.PerToken, -1)
	if !m.Config.Routing.RawWeights {
		top = op.Div(top, op.Reshape(op.Sum(top, -1), x.Dim(0), 1))
	}
	y := op.ZerosLike(x)
	for e := range m.Config.Experts {
		gateUp := op.Squeeze(op.Narrow(m.GateUp.Value, 0, e, e+1), 0)
		down := op.Squeeze(op.Narrow(m.Down.Value, 0, e, e+1), 0)
		h := op.Chunk(op.MatMulT(x, gateUp, false, true), -1, 2)
		out := op.MatMulT(op.SwiGLU(h[0], h[1]), down, false, true)
		chosen := op.Cast(op.Equal(which, op.Const(which, float64(e))), array.F32)
		y = op.Add(y, op.Mul(out, op.Reshape(op.Sum(op.Mul(top, chosen), -1), x.Dim(0), 1)))
	}
	return y
}

// TestMistakes passes mistakes through every layer without a panic.
func TestMistakes(t *testing.T) {
	s := newSession(t)
	in := nn.NewInit(nn.Config{Scope: s})
	bad := op.MatMul(s.Tensor(array.New(array.F32, 2, 3)), s.Tensor(array.New(array.F32, 2, 3)))
	heads := nn.Heads{Queries: 2, Keys: 1, Dim: 4, RoPE: func(int) op.RoPEConfig { return op.RoPEConfig{} }}
	lin := func(name string, to int) *nn.Linear { return nn.NewLinear(in.At(name), 8, to) }
	attention := &nn.Attention{Q: lin("q", 8), K: lin("k", 4), V: lin("v", 4), O: lin("o", 8), Heads: heads}
	fused := &nn.FusedAttention{QKV: nn.NewDense(in.At("qkv"), 8, 24), Proj: nn.NewDense(in.At("proj"), 8, 8),
		Heads: nn.Heads{Queries: 2, Keys: 2, Dim: 4}}
	for name, y := range map[string]*op.Tensor{
		"attention":       attention.Forward(bad, nil),
		"attention cache": attention.Forward(bad, &nn.KVCache{}),
		"attention shape": attention.Forward(s.Tensor(array.New(array.F32, 2, 7)), nil),
		"fused":           fused.Forward(bad, &nn.KVCache{}),
		"fused shape":     fused.Forward(s.Tensor(array.New(array.F32, 8)), nil),
		"moe": nn.NewMoE(in.At("moe"), nn.MoEConfig{Hidden: 4, Intermediate: 2, Experts: 2,
			PerToken: 1}).Forward(bad),
		"moe shape": nn.NewMoE(in.At("moe2"),
			nn.MoEConfig{Hidden: 4, Intermediate: 2, Experts: 2, PerToken: 1}).Forward(s.Tensor(array.New(array.F32, 2,
			3))),
		"moe many": nn.NewMoE(in.At("moe3"),
			nn.MoEConfig{Hidden: 4, Intermediate: 2, Experts: 2, PerToken: 3}).Forward(s.Tensor(array.New(array.F32, 2,
			4))),
		"embedding":  nn.NewEmbedding(in.At("e"), 3, 2).Forward(s.Tensor(array.FromSlice([]int32{5}, 1))),
		"layer norm": nn.NewLayerNorm(in.At("ln"), 3, 1e-5).Forward(bad),
	} {
		if y.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDropout(t *testing.T) {
	s := newSession(t)
	in := nn.NewInit(nn.Config{Seed: 2})
	d, p := nn.NewDropout(in.At("layer"), 0.25), in.Param("p", array.Shape{1}, nn.Constant(0))
	x := op.Full(s, array.F32, array.Shape{100, 100}, 1)
	if y := d.Forward(x); y != x {
		t.Error("a model that does not train does not pass x on")
	}
	at := func(step int64) array.Array {
		defer nn.Train([]*nn.Param{p}, func() *op.Tensor { return s.Tensor(array.Scalar(step)) })()
		restore := nn.Eval([]*nn.Param{p})
		if y := d.Forward(x); y != x {
			t.Error("a model that evaluates does not pass x on")
		}
		restore()
		return read(t, d.Forward(x))
	}
	first, second := at(1), at(2)
	kept, same := 0.0, 0.0
	for i := range first.Len() {
		if first.At(i) != 0 {
			kept++
		}
		if first.At(i) == second.At(i) {
			same++
		}
	}
	if math.Abs(kept/1e4-0.75) > 0.03 || same > 0.7*1e4 {
		t.Errorf("kept %v, the same at the next step %v of 10000", kept, same)
	}
}
