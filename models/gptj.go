package models

import (
	"math"

	"github.com/galley-ml/galley/nn"
)

// buildGPTJ builds gptj: parallel blocks with one norm, interleaved rotary pairs in a part of each head, and
// a head with a bias.
func buildGPTJ(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("transformer")
	m := &decoder{}
	m.stem.tokens = nn.NewEmbedding(base.At("wte"), c.Vocab, c.Hidden)
	m.stem.drop = dropout(base.At("drop"), c.Dropout.Embedding)
	for i := range c.Layers {
		m.blocks = append(m.blocks, gptjBlock(c, base.At("h").Index(i), act))
	}
	m.norm = nn.NewLayerNorm(base.At("ln_f"), c.Hidden, c.NormEps)
	if c.Tied {
		m.head.bias = in.At("lm_head").Param("bias", []int{c.Vocab}, nn.Constant(0))
	} else {
		m.head.linear = nn.NewLinear(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func gptjBlock(c Config, in *nn.Init, act nn.Activation) block {
	at, mlp := in.At("attn"), in.At("mlp")
	var b parallel
	b.norm = nn.NewLayerNorm(in.At("ln_1"), c.Hidden, c.NormEps)
	b.attention = &nn.Attention{
		K: nn.NewLinearNoBias(at.At("k_proj"), c.Hidden, c.Hidden),
		V: nn.NewLinearNoBias(at.At("v_proj"), c.Hidden, c.Hidden),
		Q: nn.NewLinearNoBias(at.At("q_proj"), c.Hidden, c.Hidden),
		O: nn.NewLinearNoBias(at.At("out_proj"), c.Hidden, c.Hidden),
		Heads: nn.Heads{Queries: c.Heads, Keys: c.Heads, Dim: c.HeadDim, Scale: 1 / math.Sqrt(float64(c.HeadDim)),
			RoPE: c.Rope.config(c.HeadDim), Dropout: attentionDropout(at, c)},
	}
	b.mlp = &nn.MLP{
		FC:   nn.NewLinear(mlp.At("fc_in"), c.Hidden, c.Intermediate),
		Proj: nn.NewLinear(mlp.At("fc_out"), c.Intermediate, c.Hidden),
		Act:  act,
	}
	b.attentionPost = dropout(at.At("resid"), c.Dropout.Residual)
	b.mlpPost = dropout(mlp, c.Dropout.Residual)
	return b
}
