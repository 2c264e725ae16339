package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildELECTRA builds electra: BERT's layers over token embeddings that may be smaller than the hidden size,
// with heads of its own; the one that predicts tokens is that of its generator.
func buildELECTRA(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base, width := in.At("electra"), c.tokenWidth()
	m := &decoder{stem: bertStem(c, base.At("embeddings"))}
	if width != c.Hidden {
		m.stem.wider = nn.NewLinear(base.At("embeddings_project"), width, c.Hidden)
	}
	for i := range c.Layers {
		m.blocks = append(m.blocks, bertBlock(c, base.At("encoder").At("layer").Index(i), act))
	}
	switch c.Task {
	case ClassifyTokens:
		m.head = tokenHead(c, in, c.Dropout.Classifier)
	case Answer:
		m.head = tokenHead(c, in, 0)
	case Classify:
		head := in.At("classifier")
		m.head.before = electraClass{nn.NewLinear(head.At("dense"), c.Hidden, c.Hidden),
			dropout(head, c.Dropout.Classifier)}
		m.head.linear = nn.NewLinear(head.At("out_proj"), c.Hidden, c.Labels)
	default:
		m.head = electraHead(c, in)
	}
	return m, nil
}

func electraHead(c Config, in *nn.Init) head {
	at, out, width := in.At("generator_predictions"), in.At("generator_lm_head"), c.tokenWidth()
	h := head{before: bertTransform{
		dense: nn.NewLinear(at.At("dense"), c.Hidden, width), act: exactGELU, // whatever act the layers have
		norm: nn.NewLayerNorm(at.At("LayerNorm"), width, c.NormEps),
	}}
	if c.Tied {
		h.bias = out.Param("bias", array.Shape{c.Vocab}, nn.Constant(0))
	} else {
		h.linear = nn.NewLinear(out, width, c.Vocab)
	}
	return h
}

// electraClass precedes the classifier: a layer on the first token, with dropout on both sides.
type electraClass struct {
	dense *nn.Linear
	drop  layer
}

// Forward returns [batch, width] of x [batch, seq, width].
func (e electraClass) Forward(x *op.Tensor) *op.Tensor {
	return through(e.drop, exactGELU(e.dense.Forward(through(e.drop, firstToken{}.Forward(x)))))
}
