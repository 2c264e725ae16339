package models

import (
	"github.com/galley-ml/galley/nn"
)

// buildGPTNeoX builds gpt_neox: LayerNorm, a fused matrix for each head's query, key and value in turn,
// rotary positions in a part of each head, and blocks that are parallel with two norms, or sequential.
func buildGPTNeoX(_ *family, c Config, in *nn.Init) (*decoder, error) {
	act, err := activationOf(c.Activation)
	if err != nil {
		return nil, err
	}
	base := in.At("gpt_neox")
	m := &decoder{}
	m.stem.tokens = nn.NewEmbedding(base.At("embed_in"), c.Vocab, c.Hidden)
	m.stem.drop = dropout(base.At("emb_dropout"), c.Dropout.Embedding)
	for i := range c.Layers {
		m.blocks = append(m.blocks, gptNeoXBlock(c, base.At("layers").Index(i), i, act))
	}
	m.norm = nn.NewLayerNorm(base.At("final_layer_norm"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

func gptNeoXBlock(c Config, in *nn.Init, i int, act nn.Activation) block {
	at, mlp := in.At("attention"), in.At("mlp")
	project := linearNoBias
	if c.AttentionBias {
		project = linear
	}
	first := nn.NewLayerNorm(in.At("input_layernorm"), c.Hidden, c.NormEps)
	second := nn.NewLayerNorm(in.At("post_attention_layernorm"), c.Hidden, c.NormEps)
	attention := &nn.FusedAttention{
		QKV:     project(at.At("query_key_value"), c.Hidden, 3*c.Hidden),
		Proj:    project(at.At("dense"), c.Hidden, c.Hidden),
		Heads:   c.heads(i),
		PerHead: true,
	}
	attention.Heads.Dropout = attentionDropout(at, c)
	plain := &nn.MLP{
		FC:   nn.NewLinear(mlp.At("dense_h_to_4h"), c.Hidden, c.Intermediate),
		Proj: nn.NewLinear(mlp.At("dense_4h_to_h"), c.Intermediate, c.Hidden),
		Act:  act,
	}
	attentionPost := dropout(in.At("post_attention_dropout"), c.Dropout.Residual)
	mlpPost := dropout(in.At("post_mlp_dropout"), c.Dropout.Residual)
	if c.SequentialBlocks {
		return residual{first, attention, attentionPost, second, plain, mlpPost}
	}
	return parallel{norm: first, attention: attention, attentionPost: attentionPost, mlpNorm: second, mlp: plain,
		mlpPost: mlpPost}
}
