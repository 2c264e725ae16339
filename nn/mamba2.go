package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Mamba2Config holds the sizes of a Mamba-2 layer.
type Mamba2Config struct {
	// Hidden is the hidden size of the model; Heads times Dim is that of the layer itself.
	Hidden, Heads, Dim int
	// States is the state size per element of a head; heads in each of Groups share the projections that
	// write and read the state.
	States, Groups int
	// Kernel is the width of the short causal convolution.
	Kernel int
	// Chunk is the chunk size of op.StateScan.
	Chunk int
	// Eps is the epsilon of the norm.
	Eps float64
	// MinStep and MaxStep clamp the time steps; a MaxStep of 0 means no bound.
	MinStep, MaxStep float64
	// Act follows the convolution.
	Act Activation
}

func (c Mamba2Config) width() int   { return c.Heads * c.Dim }
func (c Mamba2Config) written() int { return c.Groups * c.States }
func (c Mamba2Config) mixed() int   { return c.width() + 2*c.written() }

// Mamba2 is a state-space layer [Dao and Gu 2024]: a short convolution, a scan along the sequence and a gated
// norm.
type Mamba2 struct {
	// In computes the gate, the input of the convolution (the elements of the heads, and the vectors that write
	// and read the state) and the time steps.
	In, Out *Linear
	// Conv is [channels, 1, kernel], ConvBias [channels] or nil.
	Conv, ConvBias *Param
	// StepBias, LogDecay and Skip have a number for each head.
	StepBias, LogDecay, Skip *Param
	Norm                     *RMSNorm
	Config                   Mamba2Config
}

// NewMamba2 makes a layer with the names of transformers. The projections have no biases, and the convolution
// has one; the caller may add and remove them.
func NewMamba2(in *Init, c Mamba2Config) *Mamba2 {
	perHead := array.Shape{c.Heads}
	m := &Mamba2{Config: c}
	m.StepBias = in.Param("dt_bias", perHead, Constant(math.Log(math.Expm1(0.01))))
	m.LogDecay = in.Param("A_log", perHead, func(s op.Scope, _ op.Key, t op.Type) *op.Tensor {
		return op.Log(op.AddScalar(op.Cast(op.Iota(s, array.I64, t.Shape, 0), t.DType), 1))
	})
	m.Skip = in.Param("D", perHead, Constant(1))
	conv := in.At("conv1d")
	m.Conv = conv.Param("weight", array.Shape{c.mixed(), 1, c.Kernel},
		Uniform(1/math.Sqrt(float64(c.Kernel))))
	m.In = NewLinearNoBias(in.At("in_proj"), c.Hidden, c.width()+c.mixed()+c.Heads)
	m.Norm = NewRMSNorm(in.At("norm"), c.width(), c.Eps)
	m.Out = NewLinearNoBias(in.At("out_proj"), c.width(), c.Hidden)
	return m
}

// Forward applies the layer to x [batch, seq, width], which follows the tokens in c: its K holds the last
// inputs of the convolution and its V the states. A nil c is empty and stores nothing.
func (m *Mamba2) Forward(x *op.Tensor, c *KVCache) *op.Tensor {
	all := m.In.Forward(x)
	if all.Err() != nil {
		return all
	}
	k := m.Config
	parts := op.Split(all, -1, k.width(), k.mixed(), k.Heads)
	gate, mixed, steps := parts[0], m.convolve(parts[1], c), parts[2]
	if mixed.Err() != nil {
		return mixed
	}
	inner := op.Split(mixed, -1, k.width(), k.written(), k.written())
	values := SplitHeads(inner[0], k.Heads)
	y := m.scan(values, m.steps(steps), SplitHeads(inner[1], k.Groups), SplitHeads(inner[2], k.Groups), c)
	y = op.Add(y, op.Mul(values, op.Reshape(m.Skip.Value, k.Heads, 1)))
	if y.Err() != nil {
		return y
	}
	y = op.Reshape(y, y.Dim(0), y.Dim(1), k.width())
	return m.Out.Forward(m.Norm.Forward(op.SwiGLU(gate, y)))
}

// convolve returns act(conv(x)).
func (m *Mamba2) convolve(x *op.Tensor, c *KVCache) *op.Tensor {
	return m.Config.Act(shortConv(x, m.Conv, m.ConvBias, c))
}

// shortConv returns the depthwise causal convolution of x [batch, seq, channels] with conv [channels, 1,
// kernel]; the positions before x are K of c. The bias may be nil.
func shortConv(x *op.Tensor, conv, bias *Param, c *KVCache) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	channels, k, seq := conv.Type.Shape[0], conv.Type.Shape[2], x.Dim(1)
	before := op.Full(x.Scope(), x.DType(), array.Shape{x.Dim(0), k - 1, x.Dim(2)}, 0)
	if c != nil && c.K != nil {
		before = c.K
	}
	all := op.Concat([]*op.Tensor{before, x}, 1)
	if c != nil && all.Err() == nil {
		c.K = op.Narrow(all, 1, seq, seq+k-1)
	}
	var y *op.Tensor
	for i := range k {
		tap := op.Reshape(op.Narrow(conv.Value, 2, i, i+1), channels)
		part := op.Mul(op.Narrow(all, 1, i, i+seq), tap)
		if y == nil {
			y = part
		} else {
			y = op.Add(y, part)
		}
	}
	if bias != nil {
		y = op.Add(y, bias.Value)
	}
	return y
}

// steps returns softplus(dt + bias), clamped.
func (m *Mamba2) steps(dt *op.Tensor) *op.Tensor {
	dt = op.Softplus(op.Add(dt, m.StepBias.Value))
	if m.Config.MinStep > 0 {
		dt = op.Maximum(dt, op.Const(dt, m.Config.MinStep))
	}
	if m.Config.MaxStep > 0 {
		dt = op.Minimum(dt, op.Const(dt, m.Config.MaxStep))
	}
	return dt
}

// scan returns the state-space model itself, including time steps.
func (m *Mamba2) scan(x, dt, b, c *op.Tensor, cache *KVCache) *op.Tensor {
	if x.Err() != nil || dt.Err() != nil {
		return op.Add(x, dt)
	}
	k := m.Config
	first := op.Full(x.Scope(), x.DType(), array.Shape{x.Dim(0), k.Heads, k.Dim, k.States}, 0)
	if cache != nil && cache.V != nil {
		first = cache.V
	}
	decay := op.Mul(dt, op.Neg(op.Exp(m.LogDecay.Value)))
	y, last := op.StateScan(op.Mul(x, op.Unsqueeze(dt, -1)), decay, b, c, first, k.Chunk)
	if cache != nil {
		cache.V = last
	}
	return y
}

// Over implements Attender.
func (m *Mamba2) Over(Sequence) Attender { return m }

// Cache implements Attender: its size does not depend on the number of tokens.
func (m *Mamba2) Cache(batch, _ int) [2]array.Shape {
	k := m.Config
	return [2]array.Shape{{batch, k.Kernel - 1, k.mixed()}, {batch, k.Heads, k.Dim, k.States}}
}
