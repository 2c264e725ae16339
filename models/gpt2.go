package models

import (
	"math"

	"github.com/galley-ml/galley/nn"
)

// buildGPT2 builds GPT-2: learned positions, LayerNorm, a fused matrix for queries, keys and values.
func buildGPT2(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("transformer")
	m := &decoder{stem: stem{
		tokens:    nn.NewEmbedding(base.At("wte"), c.Vocab, c.Hidden),
		positions: nn.NewEmbedding(base.At("wpe"), c.Positions, c.Hidden),
		drop:      dropout(base.At("drop"), c.Dropout.Embedding),
	}}
	for i := range c.Layers {
		m.blocks = append(m.blocks, gpt2Block(c, base.At("h").Index(i), i, act))
	}
	m.norm = nn.NewLayerNorm(base.At("ln_f"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func gpt2Block(c Config, in *nn.Init, i int, act nn.Activation) block {
	// The projections back to the residual stream are initialized smaller, so that the sum over all layers has
	// the size of one. [Radford et al. 2019]
	last := func(name string) *nn.Init {
		return in.At(name).At("c_proj").WithNormal(c.InitStd / math.Sqrt(2*float64(c.Layers)))
	}
	var b residual
	b.attentionNorm = nn.NewLayerNorm(in.At("ln_1"), c.Hidden, c.NormEps)
	b.attention = &nn.FusedAttention{
		QKV:  nn.NewDense(in.At("attn").At("c_attn"), c.Hidden, 3*c.Hidden),
		Proj: nn.NewDense(last("attn"), c.Hidden, c.Hidden),
		Heads: nn.Heads{Queries: c.Heads, Keys: c.Heads, Dim: c.HeadDim, Scale: gpt2Scale(c, i),
			Dropout: attentionDropout(in.At("attn"), c)},
	}
	b.mlpNorm = nn.NewLayerNorm(in.At("ln_2"), c.Hidden, c.NormEps)
	b.mlp = &nn.MLP{
		FC:   nn.NewDense(in.At("mlp").At("c_fc"), c.Hidden, c.Intermediate),
		Proj: nn.NewDense(last("mlp"), c.Intermediate, c.Hidden),
		Act:  act,
	}
	b.attentionPost = dropout(in.At("attn").At("resid"), c.Dropout.Residual)
	b.mlpPost = dropout(in.At("mlp"), c.Dropout.Residual)
	return b
}

func gpt2Scale(c Config, layer int) float64 {
	scale := 1.0
	if !c.UnscaledAttention {
		scale /= math.Sqrt(float64(c.HeadDim))
	}
	if c.ScaleByLayer {
		scale /= float64(layer + 1)
	}
	return scale
}
