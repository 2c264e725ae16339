package models

import "github.com/galley-ml/galley/nn"

// buildStarcoder builds starcoder2: Llama's attention with LayerNorm and a plain MLP.
func buildStarcoder(f *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	b := llamaBuilder{Config: c, family: f, newNorm: nn.NewRMSNorm}
	project := linearNoBias
	if c.MLPBias {
		project = linear
	}
	norm := func(in *nn.Init) layer { return nn.NewLayerNorm(in, c.Hidden, c.NormEps) }
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = c.tokens(base.At("embed_tokens"))
	m.stem.drop = dropout(base.At("embed"), c.Dropout.Embedding)
	for i := range c.Layers {
		at := base.At("layers").Index(i)
		out := residual{attention: b.attention(at.At("self_attn"), i)}
		out.mlp = &nn.MLP{FC: project(at.At("mlp").At("c_fc"), c.Hidden, c.Intermediate),
			Proj: project(at.At("mlp").At("c_proj"), c.Intermediate, c.Hidden), Act: act}
		out.attentionNorm, out.mlpNorm = norm(at.At("input_layernorm")), norm(at.At("post_attention_layernorm"))
		out.attentionPost = dropout(at.At("resid_attn"), c.Dropout.Residual)
		out.mlpPost = dropout(at.At("resid_mlp"), c.Dropout.Residual)
		m.blocks = append(m.blocks, out)
	}
	m.norm = nn.NewLayerNorm(base.At("norm"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}
