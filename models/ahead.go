package models

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// aheadLayer is a multi-token prediction layer, which predicts the token after the next [DeepSeek-AI 2024,
// section 2.2]: the hidden states and the next token's embedding, both normalised, pass through one matrix
// and a layer of the model's own kind. The embedding table and the head are the model's.
type aheadLayer struct {
	tokenNorm, streamNorm layer
	join                  *nn.Linear
	block                 block
	norm                  layer
}

// aheadLayers makes the multi-token prediction layers, after the last layer.
func (b llamaBuilder) aheadLayers(in *nn.Init, block func(in *nn.Init, i int) block) (list []aheadLayer) {
	for k := range b.Ahead {
		at := in.At("model").At("layers").Index(b.Layers + k)
		list = append(list, aheadLayer{
			tokenNorm: b.norm(at.At("enorm"), b.Hidden), streamNorm: b.norm(at.At("hnorm"), b.Hidden),
			join:  nn.NewLinearNoBias(at.At("eh_proj"), 2*b.Hidden, b.Hidden),
			block: block(at, b.Layers+k), norm: b.norm(at.At("shared_head").At("norm"), b.Hidden),
		})
	}
	return list
}

// aheadLoss returns the mean of the layers' losses: from the hidden states of the layer before, and the token
// k+1 ahead, layer k predicts the token after that.
func (m *decoder) aheadLoss(stream, ids, labels *op.Tensor) *op.Tensor {
	if m.sequence.Parts(ids.Dim(1)) > 0 {
		return invalid(ids, errors.New("prediction of further tokens: sequences are in zigzag order: want "+
			"context ulysses"))
	}
	if m.sequence.Packed != nil && len(m.ahead) > 1 {
		return invalid(ids, errors.New("prediction of several further tokens in packed rows: pad them instead"))
	}
	var sum *op.Tensor
	for k, a := range m.ahead {
		ids, labels = nextIDs(ids, labels), nextLabels(labels)
		tokens := a.tokenNorm.Forward(m.stem.tokens.Forward(ids))
		stream = a.join.Forward(op.Concat([]*op.Tensor{tokens, a.streamNorm.Forward(stream)}, 2))
		stream = a.block.forward(fmt.Sprintf("ahead.%d", k), stream, nil)
		loss := op.CrossEntropy(m.logits(a.norm.Forward(stream)), labels, op.CrossEntropyConfig{})
		if sum != nil {
			loss = op.Add(sum, loss)
		}
		sum = loss
	}
	return op.MulScalar(sum, 1/float64(len(m.ahead)))
}

// nextIDs returns the token after each one; for the last one it is its label, if it has one.
func nextIDs(ids, labels *op.Tensor) *op.Tensor {
	n := ids.Dim(1)
	last := op.Narrow(labels, 1, n-1, n)
	last = op.Cast(op.Maximum(last, op.ZerosLike(last)), ids.DType())
	return op.Concat([]*op.Tensor{op.Narrow(ids, 1, 1, n), last}, 1)
}

// nextLabels returns the label of the position after each one. The last position has none, and neither has
// one without a label of its own, because another sequence may begin after it.
func nextLabels(labels *op.Tensor) *op.Tensor {
	n := labels.Dim(1)
	none := op.Full(labels.Scope(), labels.DType(), []int{labels.Dim(0), 1}, IgnoreLabel)
	next := op.Concat([]*op.Tensor{op.Narrow(labels, 1, 1, n), none}, 1)
	ignored := op.Equal(labels, op.Const(labels, IgnoreLabel))
	return op.Where(ignored, op.Const(labels, IgnoreLabel), next)
}

// eachBlock returns the model with f applied to its blocks, including those of multi-token prediction.
func (m *decoder) eachBlock(f func(b block) block) *decoder {
	d := *m
	d.blocks = make([]block, len(m.blocks))
	for i, b := range m.blocks {
		d.blocks[i] = f(b)
	}
	d.ahead = make([]aheadLayer, len(m.ahead))
	for i, a := range m.ahead {
		a.block = f(a.block)
		d.ahead[i] = a
	}
	return &d
}
