package models

import "github.com/galley-ml/galley/nn"

// buildPhi1 builds phi: parallel blocks with one LayerNorm, a plain MLP, rotary positions in a part of each
// head, and biases everywhere, including the head.
func buildPhi1(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = c.tokens(base.At("embed_tokens"))
	m.stem.drop = dropout(base.At("embed"), c.Dropout.Embedding)
	for i := range c.Layers {
		m.blocks = append(m.blocks, phi1Block(c, base.At("layers").Index(i), i, act))
	}
	m.norm = nn.NewLayerNorm(base.At("final_layernorm"), c.Hidden, c.NormEps)
	if c.Tied {
		m.head.bias = in.At("lm_head").Param("bias", []int{c.Vocab}, nn.Constant(0))
	} else {
		m.head.linear = nn.NewLinear(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func phi1Block(c Config, in *nn.Init, i int, act nn.Activation) block {
	at, mlp := in.At("self_attn"), in.At("mlp")
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	attention := &nn.Attention{
		Q: nn.NewLinear(at.At("q_proj"), c.Hidden, queries), K: nn.NewLinear(at.At("k_proj"), c.Hidden, keys),
		V: nn.NewLinear(at.At("v_proj"), c.Hidden, keys), O: nn.NewLinear(at.At("dense"), queries, c.Hidden),
		Heads: c.heads(i),
	}
	if c.QKLayerNorm {
		attention.QHeads, attention.KHeads = phi1Norm(at.At("q_layernorm"), c), phi1Norm(at.At("k_layernorm"), c)
	}
	attention.Heads.Dropout = attentionDropout(at, c)
	out := parallel{attention: attention}
	out.mlp = &nn.MLP{FC: nn.NewLinear(mlp.At("fc1"), c.Hidden, c.Intermediate),
		Proj: nn.NewLinear(mlp.At("fc2"), c.Intermediate, c.Hidden), Act: act}
	out.norm = nn.NewLayerNorm(in.At("input_layernorm"), c.Hidden, c.NormEps)
	out.attentionPost = dropout(in.At("resid_attn"), c.Dropout.Residual)
	out.mlpPost = dropout(in.At("resid_mlp"), c.Dropout.Residual)
	return out
}

// phi1Norm is a norm of queries or keys, the same for all heads.
func phi1Norm(in *nn.Init, c Config) *nn.HeadNorm {
	n := newHeadNorm(in, c.NormEps, c.HeadDim)
	n.Bias = in.Param("bias", []int{c.HeadDim}, nn.Constant(0))
	return n
}
