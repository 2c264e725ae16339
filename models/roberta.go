package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildRoBERTa builds roberta: BERT's layers with positions that skip padding, and heads of its own.
func buildRoBERTa(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("roberta")
	m := &decoder{stem: bertStem(c, base.At("embeddings"))}
	if pad, ok := c.padToken(); ok {
		m.stem.positions.Still, m.stem.padding = &pad, &pad
	}
	for i := range c.Layers {
		m.blocks = append(m.blocks, bertBlock(c, base.At("encoder").At("layer").Index(i), act))
	}
	switch c.Task {
	case ClassifyTokens:
		m.head = tokenHead(c, in, c.Dropout.Classifier)
		return m, nil
	case Answer:
		m.head = tokenHead(c, in, 0)
		return m, nil
	case Classify:
		head := in.At("classifier")
		drop := dropout(head, c.Dropout.Classifier)
		m.head.before = droppedFirst{drop, pooler{nn.NewLinear(head.At("dense"), c.Hidden, c.Hidden), drop}}
		m.head.linear = nn.NewLinear(head.At("out_proj"), c.Hidden, c.Labels)
		return m, nil
	}
	head := in.At("lm_head")
	gelu, err := activationOf("gelu") // independent of the layers' activation
	if err != nil {
		return nil, err
	}
	m.head.before = bertTransform{
		dense: nn.NewLinear(head.At("dense"), c.Hidden, c.Hidden), act: gelu,
		norm: nn.NewLayerNorm(head.At("layer_norm"), c.Hidden, c.NormEps),
	}
	m.head.onto(c, head)
	return m, nil
}

// droppedFirst is a pooler after a dropout layer.
type droppedFirst struct {
	drop layer
	pool pooler
}

// Forward returns [batch, width] of x [batch, seq, width].
func (l droppedFirst) Forward(x *op.Tensor) *op.Tensor { return l.pool.Forward(through(l.drop, x)) }

// countedPositions numbers the tokens of each row that are not padding, from pad+1 on; padding has the number
// pad.
func countedPositions(ids *op.Tensor, pad int) *op.Tensor {
	if ids.Err() != nil {
		return ids
	}
	counted := op.Cast(op.NotEqual(ids, op.Const(ids, float64(pad))), array.I32)
	return op.Cast(op.AddScalar(op.Mul(op.CumSum(counted, 1), counted), float64(pad)), array.I32)
}
