package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// MambaConfig holds the sizes of a layer of the first version of Mamba.
type MambaConfig struct {
	// Hidden is the hidden size of the model, Width that of the layer itself.
	Hidden, Width int
	// States is the state size per channel, StepRank the rank of the time-step projection.
	States, StepRank int
	// Kernel is the width of the short causal convolution.
	Kernel int
	// Chunk is the chunk size of op.StateScan.
	Chunk int
	// Act follows the convolution, and is used by the gate.
	Act Activation
}

// Mamba is a state-space layer with a decay rate for each state of each channel [Gu and Dao 2023].
type Mamba struct {
	// In computes the input of the convolution and the gate.
	In, Out *Linear
	// Select computes from the convolved input the low-rank time steps and the vectors that write and read the
	// state; Step computes the time steps.
	Select, Step *Linear
	// Conv is [channels, 1, kernel], ConvBias [channels] or nil.
	Conv, ConvBias *Param
	// LogDecay is [channels, states], Skip [channels].
	LogDecay, Skip *Param
	Config         MambaConfig
}

// NewMamba makes a layer with the names of transformers. Only Step has a bias; the caller may add others.
func NewMamba(in *Init, c MambaConfig) *Mamba {
	m := &Mamba{Config: c}
	m.LogDecay = in.Param("A_log", array.Shape{c.Width, c.States},
		func(s op.Scope, _ op.Key, t op.Type) *op.Tensor {
			return op.Log(op.AddScalar(op.Cast(op.Iota(s, array.I64, t.Shape, 1), t.DType), 1))
		})
	m.Skip = in.Param("D", array.Shape{c.Width}, Constant(1))
	m.Conv = in.At("conv1d").Param("weight", array.Shape{c.Width, 1, c.Kernel},
		Uniform(1/math.Sqrt(float64(c.Kernel))))
	m.In = NewLinearNoBias(in.At("in_proj"), c.Hidden, 2*c.Width)
	m.Select = NewLinearNoBias(in.At("x_proj"), c.Width, c.StepRank+2*c.States)
	m.Step = NewLinear(in.At("dt_proj"), c.StepRank, c.Width)
	m.Out = NewLinearNoBias(in.At("out_proj"), c.Width, c.Hidden)
	return m
}

// Forward applies the layer to x [batch, seq, width], which follows the tokens in c: its K holds the last
// inputs of the convolution and its V the states. A nil c is empty and stores nothing.
func (m *Mamba) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	k := m.Config
	both := m.In.Forward(x)
	if both.Err() != nil {
		return both
	}
	parts := op.Split(both, -1, k.Width, k.Width)
	u := k.Act(shortConv(parts[0], m.Conv, m.ConvBias, c))
	chosen := m.Select.Forward(u)
	if chosen.Err() != nil {
		return chosen
	}
	inner := op.Split(chosen, -1, k.StepRank, k.States, k.States)
	dt := op.Softplus(m.Step.Forward(inner[0]))
	y := op.Add(m.scan(u, dt, inner[1], inner[2], c), op.Mul(u, m.Skip.Value))
	return m.Out.Forward(op.Mul(y, k.Act(parts[1])))
}

// scan returns the state-space model itself: for op.StateScan, each state of each channel is a head of one
// element, and all channels of a state are a group.
func (m *Mamba) scan(u, dt, b, c *op.Tensor, cache *KVCache) *op.Tensor {
	if u.Err() != nil || dt.Err() != nil {
		return op.Add(u, dt)
	}
	k, batch, seq := m.Config, u.Dim(0), u.Dim(1)
	heads := k.States * k.Width
	written := op.Expand(op.Unsqueeze(op.Mul(dt, u), 2), batch, seq, k.States, k.Width)
	rates := op.Neg(op.Exp(op.Transpose(m.LogDecay.Value, 1, 0)))
	decay := op.Mul(op.Unsqueeze(dt, 2), rates)
	first := op.Full(u.Scope(), u.DType(), array.Shape{batch, heads, 1, 1}, 0)
	if cache != nil && cache.V != nil {
		first = cache.V
	}
	y, last := op.StateScan(op.Reshape(written, batch, seq, heads, 1), op.Reshape(decay, batch, seq, heads),
		op.Unsqueeze(b, -1), op.Unsqueeze(c, -1), first, k.Chunk)
	if cache != nil {
		cache.V = last
	}
	return op.Sum(op.Reshape(y, batch, seq, k.States, k.Width), 2)
}

// Over implements Attender.
func (m *Mamba) Over(Sequence) Attender { return m }

// Cache implements Attender: its size does not depend on the number of tokens.
func (m *Mamba) Cache(batch, _ int) [2]array.Shape {
	k := m.Config
	return [2]array.Shape{{batch, k.Kernel - 1, k.Width}, {batch, k.States * k.Width, 1, 1}}
}
