package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildViT builds vit: an encoder of an image's patches, with a class token before them.
func buildViT(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("vit")
	table, i := base.At("embeddings"), c.Image
	m := &decoder{stem: stem{patches: &patches{
		image: i, dense: &nn.Linear{},
		class: table.Param("cls_token", array.Shape{1, 1, c.Hidden}, nn.Normal(c.InitStd)),
		positions: table.Param("position_embeddings", array.Shape{1, c.Positions, c.Hidden},
			nn.Normal(c.InitStd)),
	}}}
	projection := table.At("patch_embeddings").At("projection")
	m.stem.patches.dense.Weight = projection.Param("weight", array.Shape{c.Hidden, i.Channels, i.Patch[0],
		i.Patch[1]}, nn.Normal(c.InitStd))
	m.stem.patches.dense.Bias = projection.Param("bias", array.Shape{c.Hidden}, nn.Constant(0))
	m.stem.drop = dropout(table, c.Dropout.Residual)
	for n := range c.Layers {
		m.blocks = append(m.blocks, vitBlock(c, base.At("layers").Index(n), act))
	}
	m.norm = nn.NewLayerNorm(base.At("layernorm"), c.Hidden, c.NormEps)
	m.head.before = firstToken{}
	m.head.linear = nn.NewLinear(in.At("classifier"), c.Hidden, c.Labels)
	return m, nil
}

func vitBlock(c Config, in *nn.Init, act nn.Activation) block {
	qkv := linearNoBias
	if c.AttentionBias {
		qkv = linear
	}
	attention, width := in.At("attention"), c.Heads*c.HeadDim
	return residual{
		attention: &nn.Attention{
			Q: qkv(attention.At("q_proj"), c.Hidden, width), K: qkv(attention.At("k_proj"), c.Hidden, width),
			V: qkv(attention.At("v_proj"), c.Hidden, width), O: nn.NewLinear(attention.At("o_proj"), width,
				c.Hidden),
			Heads: nn.Heads{Queries: c.Heads, Keys: c.Heads, Dim: c.HeadDim, Mask: nn.Everywhere,
				Dropout: attentionDropout(attention, c)},
		},
		attentionPost: dropout(attention, c.Dropout.Residual), mlpPost: dropout(in.At("mlp"), c.Dropout.Residual),
		attentionNorm: nn.NewLayerNorm(in.At("layernorm_before"), c.Hidden, c.NormEps),
		mlpNorm:       nn.NewLayerNorm(in.At("layernorm_after"), c.Hidden, c.NormEps),
		mlp: &nn.MLP{
			FC:   nn.NewLinear(in.At("mlp").At("fc1"), c.Hidden, c.Intermediate),
			Proj: nn.NewLinear(in.At("mlp").At("fc2"), c.Intermediate, c.Hidden), Act: act,
		},
	}
}

// patches computes the first hidden states of an image: a class token, then one for each patch.
type patches struct {
	image Image
	// dense is a convolution with a stride of its own size: a product with every patch. Its weight is [hidden,
	// channels, height, width].
	dense            *nn.Linear
	class, positions *nn.Param
}

// forward returns [batch, 1 + patches, hidden] of x [batch, channels, height, width].
func (p *patches) forward(x *op.Tensor) *op.Tensor {
	i, want := p.image, array.Shape{p.image.Channels, p.image.Size[0], p.image.Size[1]}
	if len(x.Shape()) != 4 || !x.Shape()[1:].Equal(want) {
		return invalid(x, fmt.Errorf("pixels: got shape %v, want [batch, %d, %d, %d]",
			x.Shape(), want[0], want[1], want[2]))
	}
	batch, hidden := x.Dim(0), p.dense.Bias.Type.Shape[0]
	x = op.Reshape(op.Cast(x, p.class.Value.DType()), batch, i.Channels, i.Size[0]/i.Patch[0], i.Patch[0],
		i.Size[1]/i.Patch[1], i.Patch[1])
	x = op.Reshape(op.Transpose(x, 0, 2, 4, 1, 3, 5), batch, i.patches(), i.Channels*i.Patch[0]*i.Patch[1])
	weight := op.Reshape(p.dense.Weight.Value, hidden, x.Dim(2))
	x = op.Linear(x, weight, p.dense.Bias.Value)
	class := op.Expand(p.class.Value, batch, 1, hidden)
	return op.Add(op.Concat([]*op.Tensor{class, x}, 1), p.positions.Value)
}
