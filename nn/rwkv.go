package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// TimeMix is RWKV's layer along the sequence [Peng et al. 2023]: a weighted mean of the values so far, with
// weights that decay at a rate per channel, times a gate computed from the input.
type TimeMix struct {
	// Decay [width] is the logarithm of the decay rate. First [width] is the logarithm of a factor on the
	// weight of the current token.
	Decay, First *Param
	// MixKey, MixValue and MixGate are the current token's share of the input; the rest is the previous token's.
	MixKey, MixValue, MixGate *Param
	Key, Value, Gate, Out     *Linear
	// Chunk is the chunk of op.StateScan.
	Chunk int
}

// Forward applies the layer to x [batch, seq, hidden]. before is the token before the first and state,
// [batch, width, 3], is what an earlier call returned as next; both are nil at the begin of a sequence.
func (m *TimeMix) Forward(x, before, state *op.Tensor) (y, next *op.Tensor) {
	if x.Err() != nil {
		return x, x
	}
	shifted := shift(x, before)
	k, v := m.Key.Forward(blend(x, shifted, m.MixKey)), m.Value.Forward(blend(x, shifted, m.MixValue))
	gate := op.Sigmoid(m.Gate.Forward(blend(x, shifted, m.MixGate)))
	mean, next := m.mean(k, v, state)
	return m.Out.Forward(op.Mul(gate, mean)), next
}

// shift returns x shifted by one position, with before as the first; nil means zeros.
func shift(x, before *op.Tensor) *op.Tensor {
	if before == nil {
		before = op.ZerosLike(op.Narrow(x, 1, 0, 1))
	}
	return op.Concat([]*op.Tensor{before, op.Narrow(x, 1, 0, x.Dim(1)-1)}, 1)
}

// blend returns mix·x + (1-mix)·shifted.
func blend(x, shifted *op.Tensor, mix *Param) *op.Tensor {
	return op.Add(shifted, op.Mul(op.Sub(x, shifted), mix.Value))
}

// mean returns the weighted mean of the values and the next state. Weights are kept relative to the largest
// so far, whose logarithm is part of the state, so that no exponential overflows.
func (m *TimeMix) mean(k, v, state *op.Tensor) (y, next *op.Tensor) {
	if k.Err() != nil || v.Err() != nil {
		y = op.Add(k, v)
		return y, y
	}
	batch, seq, width := k.Dim(0), k.Dim(1), k.Dim(2)
	first := op.Full(k.Scope(), k.DType(), array.Shape{batch, width, 2, 1}, 0)
	begin := op.StopGradient(op.Narrow(k, 1, 0, 1))
	if state != nil {
		first = op.Reshape(op.Narrow(state, 2, 0, 2), batch, width, 2, 1)
		begin = op.Reshape(op.Narrow(state, 2, 2, 3), batch, 1, width)
	}
	rate := op.Neg(op.Exp(m.Decay.Value))
	tops := largest(begin, k, rate)
	before, top := op.Narrow(tops, 1, 0, seq), op.Narrow(tops, 1, 1, seq+1)
	weight := op.Exp(op.Sub(k, top))
	ones := op.Full(k.Scope(), k.DType(), array.Shape{batch, seq, 1, 1}, 1)
	sums, last := op.StateScan(op.Stack([]*op.Tensor{op.Mul(weight, v), weight}, -1),
		op.Add(op.Sub(before, top), rate), ones, ones, first, m.Chunk)
	if sums.Err() != nil {
		return sums, sums
	}
	earlier := op.Concat([]*op.Tensor{op.Reshape(first, batch, 1, width, 2), op.Narrow(sums, 1, 0, seq-1)}, 1)
	own := op.Add(k, m.First.Value)
	high := op.StopGradient(op.Maximum(before, own))
	old, now := op.Exp(op.Sub(before, high)), op.Exp(op.Sub(own, high))
	part := func(i int) *op.Tensor { return op.Mul(old, op.Squeeze(op.Narrow(earlier, 3, i, i+1), 3)) }
	y = op.Div(op.Add(part(0), op.Mul(now, v)), op.Add(part(1), now))
	end := op.Reshape(op.Narrow(tops, 1, seq, seq+1), batch, width, 1)
	return y, op.Concat([]*op.Tensor{op.Reshape(last, batch, width, 2), end}, 2)
}

// largest returns, before the first position and after each, the maximum of the decayed k so far.
func largest(begin, k, rate *op.Tensor) *op.Tensor {
	n := k.Dim(1) + 1
	count := op.Cast(op.Iota(k.Scope(), array.I64, array.Shape{n, 1}, 0), k.DType())
	decayed := op.StopGradient(op.Mul(count, rate))
	values, _ := op.CumMax(op.Sub(op.Concat([]*op.Tensor{begin, op.StopGradient(k)}, 1), decayed), 1)
	return op.StopGradient(op.Add(values, decayed))
}

// ChannelMix is RWKV's feed-forward layer.
type ChannelMix struct {
	// MixKey and MixGate are like those of TimeMix.
	MixKey, MixGate  *Param
	Key, Value, Gate *Linear
}

// Forward applies the layer to x [batch, seq, hidden]; before is the token before the first, or nil.
func (m *ChannelMix) Forward(x, before *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	shifted := shift(x, before)
	h := op.Square(op.ReLU(m.Key.Forward(blend(x, shifted, m.MixKey))))
	return op.Mul(op.Sigmoid(m.Gate.Forward(blend(x, shifted, m.MixGate))), m.Value.Forward(h))
}
