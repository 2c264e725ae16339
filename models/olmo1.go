package models

import "github.com/galley-ml/galley/nn"

// buildOLMo1 builds olmo: Llama with a LayerNorm without parameters, and clamped queries, keys and values.
func buildOLMo1(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	norm := &scaleNorm{width: c.Hidden, eps: olmo1Eps}
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = c.tokens(base.At("embed_tokens"))
	for i := range c.Layers {
		at := base.At("layers").Index(i)
		attention := b.attention(at.At("self_attn"), i)
		attention.Bound = c.QKVBound
		m.blocks = append(m.blocks, residual{attentionNorm: norm, attention: attention, mlpNorm: norm,
			mlp: b.mlp(at.At("mlp"), i)})
	}
	m.norm = norm
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}
