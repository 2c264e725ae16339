package models

import "github.com/galley-ml/galley/nn"

// buildFalcon builds falcon: LayerNorm, a fused matrix for queries, keys and values, a plain MLP, and blocks
// that are parallel, with one norm or two, or sequential.
func buildFalcon(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("transformer")
	m := &decoder{}
	m.stem.tokens = nn.NewEmbedding(base.At("word_embeddings"), c.Vocab, c.Hidden)
	for i := range c.Layers {
		m.blocks = append(m.blocks, falconBlock(c, base.At("h").Index(i), i, act))
	}
	m.norm = nn.NewLayerNorm(base.At("ln_f"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func falconBlock(c Config, in *nn.Init, i int, act nn.Activation) block {
	at, mlp := in.At("self_attention"), in.At("mlp")
	project := linearNoBias
	if c.AttentionBias {
		project = linear
	}
	attention := &nn.FusedAttention{
		QKV:     project(at.At("query_key_value"), c.Hidden, (c.Heads+2*c.KVHeads)*c.HeadDim),
		Proj:    project(at.At("dense"), c.Hidden, c.Hidden),
		Heads:   c.heads(i),
		PerHead: c.QKV != QKVOneKey,
	}
	attention.Heads.Dropout = attentionDropout(at, c)
	plain := &nn.MLP{FC: project(mlp.At("dense_h_to_4h"), c.Hidden, c.Intermediate),
		Proj: project(mlp.At("dense_4h_to_h"), c.Intermediate, c.Hidden), Act: act}
	norm := func(name string) *nn.LayerNorm { return nn.NewLayerNorm(in.At(name), c.Hidden, c.NormEps) }
	drop := func(name string) layer { return dropout(in.At(name), c.Dropout.Residual) }
	switch {
	case c.SequentialBlocks:
		return residual{norm("input_layernorm"), attention, drop("attention_dropout"),
			norm("post_attention_layernorm"), plain, drop("mlp_dropout")}
	case c.OneNorm:
		return parallel{norm: norm("input_layernorm"), attention: attention, mlp: plain, post: drop("dropout")}
	}
	return parallel{norm: norm("ln_attn"), mlpNorm: norm("ln_mlp"), attention: attention, mlp: plain,
		post: drop("dropout")}
}
