package nn

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// RWKV7Config is the shape of a TimeMix7.
type RWKV7Config struct {
	// Hidden is the width of the residual stream, Heads·Dim.
	Hidden, Heads, Dim int
	// DecayRank, RateRank, ValueRank and GateRank are the inner sizes of the low-rank layers.
	DecayRank, RateRank, ValueRank, GateRank int
	// Eps is the epsilon of the stream's norms; that of the heads' norm is Dim times as large.
	Eps float64
	// Layer is this layer's index among Layers. Layer 0 provides the values that all others mix in.
	Layer, Layers int
	// Chunk is the chunk of op.DeltaScan.
	Chunk int
}

// TimeMix7 is RWKV-7's layer along the sequence [Peng et al. 2025]: each head keeps a matrix that maps keys
// to values, and every token replaces a part of it at a learned rate.
type TimeMix7 struct {
	// MixR … MixG are the previous token's shares of the inputs from which R … G are computed.
	MixR, MixW, MixK, MixV, MixA, MixG *Param
	// Removal scales the keys that are removed from the state. KeyRate is the share of the rate by which written
	// keys are scaled. Bonus [heads, dim] weighs a token's own value.
	Removal, KeyRate, Bonus *Param
	R, K, V, Out            *Linear
	// Values is nil in the first layer.
	Decay, Rate, Values, Gate *LowRank
	Norm                      *GroupNorm
	Config                    RWKV7Config
}

// LowRank is two linear layers with a small dimension and an activation between them.
type LowRank struct {
	Down, Up *Linear
	// Act may be nil.
	Act Activation
}

// Forward applies the layers to the last dim of x.
func (l *LowRank) Forward(x *op.Tensor) *op.Tensor {
	x = l.Down.Forward(x)
	if l.Act != nil {
		x = l.Act(x)
	}
	return l.Up.Forward(x)
}

// NewTimeMix7 makes a layer with the parameter names of flash-linear-attention. Mixes, decays and rates are
// initialized as there; matrices are normal where it has orthogonal ones.
func NewTimeMix7(in *Init, c RWKV7Config) *TimeMix7 {
	m := &TimeMix7{Config: c}
	mixes := []struct {
		to    **Param
		name  string
		power float64
	}{{&m.MixR, "x_r", 0.2}, {&m.MixW, "x_w", 0.9}, {&m.MixK, "x_k", 0.7}, {&m.MixV, "x_v", 0.7},
		{&m.MixA, "x_a", 0.9}, {&m.MixG, "x_g", 0.2}}
	for _, x := range mixes {
		*x.to = in.Param(x.name, array.Shape{1, 1, c.Hidden}, c.mix(x.power*c.left()))
	}
	wide := array.Shape{c.Hidden}
	m.Removal = in.Param("k_k", wide, channels(func(i *op.Tensor) *op.Tensor {
		return op.AddScalar(op.MulScalar(c.linear(i), -0.1), 0.71)
	}))
	m.KeyRate = in.Param("k_a", wide, Constant(1.02))
	m.Bonus = in.Param("r_k", array.Shape{c.Heads, c.Dim}, Constant(-0.04))
	linear := func(name string) *Linear { return NewLinearNoBias(in.At(name), c.Hidden, c.Hidden) }
	m.R, m.K, m.V = linear("r_proj"), linear("k_proj"), linear("v_proj")
	m.Out = NewLinearNoBias(in.At("o_proj").WithWeights(Constant(0)), c.Hidden, c.Hidden)
	m.Decay = c.lowRank(in.At("w_lora"), c.DecayRank, op.Tanh, c.firstDecay)
	if c.Layer > 0 {
		m.Values = c.lowRank(in.At("v_lora"), c.ValueRank, nil, func(i *op.Tensor) *op.Tensor {
			return op.AddScalar(op.MulScalar(c.linear(i), -0.4), 0.73)
		})
	}
	m.Rate = c.lowRank(in.At("a_lora"), c.RateRank, nil, func(i *op.Tensor) *op.Tensor {
		return op.AddScalar(op.Add(op.MulScalar(c.zigzag(i), 0.3), op.MulScalar(c.linear(i), 0.4)), -0.19)
	})
	m.Gate = c.lowRank(in.At("g_lora"), c.GateRank, op.Sigmoid, nil)
	m.Norm = NewGroupNorm(in.At("g_norm"), c.Heads, c.Hidden, float64(c.Dim)*c.Eps)
	return m
}

// lowRank makes a LowRank whose first matrix is zero; bias may be nil.
func (c RWKV7Config) lowRank(in *Init, rank int, act Activation,
	bias func(i *op.Tensor) *op.Tensor) *LowRank {
	inner := in.At("lora")
	l := &LowRank{Act: act, Down: NewLinearNoBias(inner.At("0").WithWeights(Constant(0)), c.Hidden, rank)}
	l.Up = NewLinearNoBias(inner.At("2"), rank, c.Hidden)
	if bias != nil {
		l.Up.Bias = inner.At("2").Param("bias", array.Shape{c.Hidden}, channels(bias))
	}
	return l
}

// left returns the share of the layers from this one on.
func (c RWKV7Config) left() float64 { return 1 - float64(c.Layer)/float64(c.Layers) }

// mix returns 1-(i/hidden)^power for each channel i.
func (c RWKV7Config) mix(power float64) Initializer { return mixFirst(c.Hidden, power) }

func mixFirst(hidden int, power float64) Initializer {
	return channels(func(i *op.Tensor) *op.Tensor {
		share := op.MulScalar(i, 1/float64(hidden))
		return op.AddScalar(op.Neg(op.Pow(share, power)), 1)
	})
}

// linear returns a linear ramp from -1/2 to 1/2 over the channels i.
func (c RWKV7Config) linear(i *op.Tensor) *op.Tensor {
	return op.AddScalar(op.MulScalar(i, 1/float64(max(1, c.Hidden-1))), -0.5)
}

// zigzag returns z·|z| for a linear ramp z from -1 to 1 over each head.
func (c RWKV7Config) zigzag(i *op.Tensor) *op.Tensor {
	half := math.Max(0.5, float64(c.Dim-1)/2)
	dim := float64(c.Dim)
	inHead := op.Sub(i, op.MulScalar(op.Floor(op.MulScalar(i, 1/dim)), dim))
	z := op.AddScalar(op.MulScalar(inHead, 1/half), -1)
	return op.Mul(z, op.Abs(z))
}

// firstDecay returns the initial bias of decays: slow in the first channels, faster towards the last.
func (c RWKV7Config) firstDecay(i *op.Tensor) *op.Tensor {
	power := 1 + math.Pow(float64(c.Layer)/math.Max(1, float64(c.Layers-1)), 0.3)
	share := op.MulScalar(i, 1/float64(max(1, c.Hidden-1)))
	slow := op.AddScalar(op.MulScalar(op.Pow(share, power), 6), -6+0.5)
	return op.Add(slow, op.MulScalar(c.zigzag(i), 2.5))
}

// channels returns an initializer that computes values from the index of each channel in the last dim.
func channels(f func(i *op.Tensor) *op.Tensor) Initializer {
	return func(s op.Scope, _ op.Key, t op.Type) *op.Tensor {
		i := op.Iota(s, array.I64, t.Shape, len(t.Shape)-1)
		return op.Cast(f(op.Cast(i, array.F64)), t.DType)
	}
}

// Forward applies the layer to x [batch, seq, hidden]. values are those that the first layer returned, nil in
// that layer. before is the token before the first and state, [batch, heads, dim, dim], is what an earlier
// call returned as next; both are nil at the begin of a sequence. It also returns the values of the first
// layer.
func (m *TimeMix7) Forward(x, values, before, state *op.Tensor) (y, first, next *op.Tensor) {
	if x.Err() != nil {
		return x, x, x
	}
	c, shifted := m.Config, shift(x, before)
	from := func(p *Param) *op.Tensor { return blend(shifted, x, p) }
	v := m.V.Forward(from(m.MixV))
	if m.Values == nil {
		values = v
	} else {
		v = op.Add(v, op.Mul(op.Sub(values, v), op.Sigmoid(m.Values.Forward(from(m.MixV)))))
	}
	r, k := m.R.Forward(from(m.MixR)), m.K.Forward(from(m.MixK))
	rate := op.Sigmoid(m.Rate.Forward(from(m.MixA)))
	removed := m.removed(k)
	k = op.Mul(k, op.AddScalar(op.Mul(op.AddScalar(rate, -1), m.KeyRate.Value), 1))
	w := op.MulScalar(op.Sigmoid(m.Decay.Forward(from(m.MixW))), -math.Exp(-0.5))
	heads := func(t *op.Tensor) *op.Tensor { return SplitHeads(t, c.Heads) }
	hr, hk, hv := heads(r), heads(k), heads(v)
	if hv.Err() != nil || removed.Err() != nil {
		y = op.Add(hv, removed)
		return y, y, y
	}
	if state == nil {
		state = op.Full(x.Scope(), x.DType(), array.Shape{x.Dim(0), c.Heads, c.Dim, c.Dim}, 0)
	}
	y, next = op.DeltaScan(hr, heads(w), hk, hv, op.Neg(removed), op.Mul(removed, heads(rate)), state, c.Chunk)
	y = op.Add(m.normed(y), op.Mul(sumLast(op.Mul(op.Mul(hr, hk), m.Bonus.Value)), hv))
	if y.Err() != nil {
		return y, y, y
	}
	y = op.Reshape(y, x.Dim(0), x.Dim(1), c.Hidden)
	return m.Out.Forward(op.Mul(y, m.Gate.Forward(from(m.MixG)))), values, next
}

// removed returns the normalized keys [batch, seq, heads, dim] that are removed from the state.
func (m *TimeMix7) removed(k *op.Tensor) *op.Tensor {
	x := SplitHeads(op.Mul(k, m.Removal.Value), m.Config.Heads)
	squares := sumLast(op.Square(x))
	return op.Div(x, op.Sqrt(op.Maximum(squares, op.Const(squares, 1e-24))))
}

// sumLast returns the sums over the last dim, kept with size 1.
func sumLast(x *op.Tensor) *op.Tensor { return op.Unsqueeze(op.Sum(x, -1), -1) }

// normed returns y [batch, seq, heads, dim] with each head normalised.
func (m *TimeMix7) normed(y *op.Tensor) *op.Tensor {
	c, n := m.Config, m.Norm
	each := func(p *Param) *op.Tensor { return op.Reshape(p.Value, c.Heads, c.Dim) }
	return op.Add(op.Mul(op.LayerNorm(y, nil, nil, n.Eps), each(n.Weight)), each(n.Bias))
}

// ChannelMix7 is RWKV-7's feed-forward layer.
type ChannelMix7 struct {
	// Mix is like those of TimeMix7.
	Mix        *Param
	Key, Value *Linear
}

// NewChannelMix7 makes a layer with the parameter names of flash-linear-attention.
func NewChannelMix7(in *Init, c RWKV7Config, inner int) *ChannelMix7 {
	return &ChannelMix7{
		Mix:   in.Param("x_k", array.Shape{c.Hidden}, mixFirst(c.Hidden, math.Pow(c.left(), 4))),
		Key:   NewLinearNoBias(in.At("key"), c.Hidden, inner),
		Value: NewLinearNoBias(in.At("value").WithWeights(Constant(0)), inner, c.Hidden),
	}
}

// Forward applies the layer to x [batch, seq, hidden]; before is the token before the first, or nil.
func (m *ChannelMix7) Forward(x, before *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return m.Value.Forward(op.Square(op.ReLU(m.Key.Forward(blend(shift(x, before), x, m.Mix)))))
}
