package models

import "github.com/galley-ml/galley/nn"

// buildPhi builds phi3: Llama with a fused matrix for queries, keys and values and one for gate and up.
func buildPhi(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	m := b.model(in, func(in *nn.Init, i int) block {
		attention, mlp := in.At("self_attn"), in.At("mlp")
		var out residual
		fused := &nn.FusedAttention{
			Proj:  nn.NewLinearNoBias(attention.At("o_proj"), queries, c.Hidden),
			QKV:   nn.NewLinearNoBias(attention.At("qkv_proj"), c.Hidden, queries+2*keys),
			Heads: c.heads(i),
		}
		fused.Heads.Dropout = attentionDropout(attention, c)
		out.attention = fused
		out.mlp = &nn.FusedGatedMLP{
			GateUp: nn.NewLinearNoBias(mlp.At("gate_up_proj"), c.Hidden, 2*c.Intermediate),
			Down:   nn.NewLinearNoBias(mlp.At("down_proj"), c.Intermediate, c.Hidden),
			Act:    b.act,
		}
		out.attentionNorm = b.norm(in.At("input_layernorm"), c.Hidden)
		out.mlpNorm = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		out.attentionPost = dropout(in.At("resid_attn"), c.Dropout.Residual)
		out.mlpPost = dropout(in.At("resid_mlp"), c.Dropout.Residual)
		return out
	})
	m.stem.drop = dropout(in.At("model").At("embed"), c.Dropout.Embedding)
	return m, nil
}
