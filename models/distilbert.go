package models

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildDistilBERT builds distilbert: BERT's layers under names of its own, without token types and without a
// pooler.
func buildDistilBERT(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("distilbert")
	m := &decoder{stem: distilBERTStem(c, base.At("embeddings"))}
	for i := range c.Layers {
		m.blocks = append(m.blocks, distilBERTBlock(c, base.At("transformer").At("layer").Index(i), act))
	}
	switch c.Task {
	case ClassifyTokens, Answer:
		m.head = tokenHead(c, in, c.Dropout.Classifier)
	case Classify:
		m.head.before = distilBERTClass{nn.NewLinear(in.At("pre_classifier"), c.Hidden, c.Hidden),
			dropout(in.At("pre_classifier"), c.Dropout.Classifier)}
		m.head.linear = nn.NewLinear(in.At("classifier"), c.Hidden, c.Labels)
	default:
		m.head.before = bertTransform{dense: nn.NewLinear(in.At("vocab_transform"), c.Hidden, c.Hidden), act: act,
			norm: nn.NewLayerNorm(in.At("vocab_layer_norm"), c.Hidden, c.NormEps)}
		out := in.At("vocab_projector")
		if c.Tied {
			m.head.bias = out.Param("bias", array.Shape{c.Vocab}, nn.Constant(0))
		} else {
			m.head.linear = nn.NewLinear(out, c.Hidden, c.Vocab)
		}
	}
	return m, nil
}

func distilBERTStem(c Config, in *nn.Init) stem {
	s := stem{tokens: c.tokens(in.At("word_embeddings"))}
	at := in.At("position_embeddings")
	if c.SinePositions {
		s.positions = &nn.Embedding{Weight: at.Param("weight", array.Shape{c.Positions, c.Hidden}, waves)}
	} else {
		s.positions = nn.NewEmbedding(at, c.Positions, c.Hidden)
	}
	s.norm = nn.NewLayerNorm(in.At("LayerNorm"), c.Hidden, c.NormEps)
	s.drop = dropout(in, c.Dropout.Residual)
	return s
}

// waves returns sinusoidal position embeddings [positions, width]: sines and cosines of increasing periods in
// turn.
func waves(s op.Scope, _ op.Key, t op.Type) *op.Tensor {
	at := func(dim int) *op.Tensor { return op.Iota(s, array.I32, t.Shape, dim) }
	column := at(1)
	odd := op.Mod(column, op.Const(column, 2))
	even := op.Cast(op.Sub(column, odd), t.DType)
	period := op.Exp(op.MulScalar(even, -math.Log(10000)/float64(t.Shape[1])))
	angle := op.Mul(op.Cast(at(0), t.DType), period)
	return op.Where(op.Equal(odd, op.Const(odd, 0)), op.Sin(angle), op.Cos(angle))
}

func distilBERTBlock(c Config, in *nn.Init, act nn.Activation) block {
	at, ffn := in.At("attention"), in.At("ffn")
	project := func(name string) *nn.Linear { return nn.NewLinear(at.At(name), c.Hidden, c.Hidden) }
	var b postNorm
	b.attention = &nn.Attention{
		Q: project("q_lin"), K: project("k_lin"), V: project("v_lin"), O: project("out_lin"),
		Heads: nn.Heads{Queries: c.Heads, Keys: c.Heads, Dim: c.HeadDim, Mask: nn.Everywhere,
			Dropout: attentionDropout(at, c)},
	}
	b.attentionNorm = nn.NewLayerNorm(in.At("sa_layer_norm"), c.Hidden, c.NormEps)
	b.mlp = &nn.MLP{FC: nn.NewLinear(ffn.At("lin1"), c.Hidden, c.Intermediate),
		Proj: nn.NewLinear(ffn.At("lin2"), c.Intermediate, c.Hidden), Act: act}
	b.mlpNorm = nn.NewLayerNorm(in.At("output_layer_norm"), c.Hidden, c.NormEps)
	b.mlpDrop = dropout(ffn, c.Dropout.Residual)
	return b
}

// distilBERTClass precedes the classifier: a layer on the first token.
type distilBERTClass struct {
	dense *nn.Linear
	drop  layer
}

// Forward returns [batch, width] of x [batch, seq, width].
func (d distilBERTClass) Forward(x *op.Tensor) *op.Tensor {
	return through(d.drop, op.ReLU(d.dense.Forward(firstToken{}.Forward(x))))
}
