package models

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildBERT builds bert: an encoder with learned positions and post-norm layers, and a head that predicts
// masked tokens or classifies sequences.
func buildBERT(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("bert")
	m := &decoder{stem: bertStem(c, base.At("embeddings"))}
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
		m.head.before = pooler{nn.NewLinear(base.At("pooler").At("dense"), c.Hidden, c.Hidden),
			dropout(in, c.Dropout.Classifier)}
		m.head.linear = nn.NewLinear(in.At("classifier"), c.Hidden, c.Labels)
		return m, nil
	}
	predictions := in.At("cls").At("predictions")
	transform := predictions.At("transform")
	m.head.before = bertTransform{
		dense: nn.NewLinear(transform.At("dense"), c.Hidden, c.Hidden), act: act,
		norm: nn.NewLayerNorm(transform.At("LayerNorm"), c.Hidden, c.NormEps),
	}
	m.head.onto(c, predictions)
	return m, nil
}

// onto sets the output projection: the tied embedding table and a bias, or a decoder with its own bias.
func (h *head) onto(c Config, in *nn.Init) {
	if c.Tied {
		h.bias = in.Param("bias", array.Shape{c.Vocab}, nn.Constant(0))
	} else {
		h.linear = nn.NewLinear(in.At("decoder"), c.Hidden, c.Vocab)
	}
}

// bertStem makes the embeddings of tokens, positions and token types.
func bertStem(c Config, in *nn.Init) stem {
	width := c.tokenWidth()
	return stem{
		tokens:    c.tokens(in.At("word_embeddings")),
		positions: nn.NewEmbedding(in.At("position_embeddings"), c.Positions, width),
		types:     nn.NewEmbedding(in.At("token_type_embeddings"), c.TokenTypes, width),
		norm:      nn.NewLayerNorm(in.At("LayerNorm"), width, c.NormEps),
		drop:      dropout(in, c.Dropout.Residual),
	}
}

// bertTransform precedes the prediction of masked tokens.
type bertTransform struct {
	dense *nn.Linear
	act   nn.Activation
	norm  *nn.LayerNorm
}

// Forward applies the layer to the last dim of x.
func (t bertTransform) Forward(x *op.Tensor) *op.Tensor {
	return t.norm.Forward(t.act(t.dense.Forward(x)))
}

func bertBlock(c Config, in *nn.Init, act nn.Activation) block {
	attention, out := in.At("attention"), in.At("output")
	self := attention.At("self")
	heads := nn.Heads{Queries: c.Heads, Keys: c.Heads, Dim: c.HeadDim, Mask: nn.Everywhere,
		Dropout: attentionDropout(self, c)}
	var b postNorm
	b.attention = &nn.Attention{
		Q: nn.NewLinear(self.At("query"), c.Hidden, c.Hidden), K: nn.NewLinear(self.At("key"), c.Hidden,
			c.Hidden),
		V:     nn.NewLinear(self.At("value"), c.Hidden, c.Hidden),
		O:     nn.NewLinear(attention.At("output").At("dense"), c.Hidden, c.Hidden),
		Heads: heads,
	}
	b.attentionNorm = nn.NewLayerNorm(attention.At("output").At("LayerNorm"), c.Hidden, c.NormEps)
	b.mlp = &nn.MLP{
		FC:   nn.NewLinear(in.At("intermediate").At("dense"), c.Hidden, c.Intermediate),
		Proj: nn.NewLinear(out.At("dense"), c.Intermediate, c.Hidden), Act: act,
	}
	b.mlpNorm = nn.NewLayerNorm(out.At("LayerNorm"), c.Hidden, c.NormEps)
	b.attentionDrop = dropout(attention.At("output"), c.Dropout.Residual)
	b.mlpDrop = dropout(out, c.Dropout.Residual)
	return b
}

// postNorm is one layer of a post-norm transformer: it normalises after each residual sum.
type postNorm struct {
	attention     nn.Attender
	attentionDrop layer
	attentionNorm layer
	mlp           layer
	mlpDrop       layer
	mlpNorm       layer
}

func (b postNorm) forward(name string, x *op.Tensor, c *nn.KVCache) *op.Tensor {
	x = op.Mark(x, name)
	y := through(b.attentionDrop, b.attention.Forward(x, c))
	x = op.Mark(b.attentionNorm.Forward(op.Add(x, y)), nn.MidMark(name))
	return b.mlpNorm.Forward(op.Add(x, through(b.mlpDrop, b.mlp.Forward(x))))
}

func (b postNorm) over(s nn.Sequence) block {
	b.attention, b.attentionDrop, b.mlpDrop = b.attention.Over(s), over(b.attentionDrop, s), over(b.mlpDrop, s)
	return b
}

func (b postNorm) shared(Layout) block                   { return b }
func (b postNorm) cache(batch, limit int) [2]array.Shape { return b.attention.Cache(batch, limit) }
