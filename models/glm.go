package models

import "github.com/galley-ml/galley/nn"

// buildGLM builds glm and glm4: Llama with biases of queries, keys and values only, a fused matrix for gate
// and up, and interleaved rotary pairs in a part of each head. In glm4, the outputs of attention and MLP are
// normalised, too.
func buildGLM(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	b = b.attendingAs(false)
	return b.model(in, func(in *nn.Init, i int) block {
		mlp := in.At("mlp")
		out := residual{attention: b.attention(in.At("self_attn"), i)}
		out.mlp = &nn.FusedGatedMLP{
			GateUp: nn.NewLinearNoBias(mlp.At("gate_up_proj"), c.Hidden, 2*c.Intermediate),
			Down:   nn.NewLinearNoBias(mlp.At("down_proj"), c.Intermediate, c.Hidden),
			Act:    b.act,
		}
		out.attentionNorm = b.norm(in.At("input_layernorm"), c.Hidden)
		out.mlpNorm = b.norm(in.At("post_attention_layernorm"), c.Hidden)
		if c.Family == "glm4" {
			out.attentionPost = b.norm(in.At("post_self_attn_layernorm"), c.Hidden)
			out.mlpPost = b.norm(in.At("post_mlp_layernorm"), c.Hidden)
		}
		return out
	}), nil
}

// buildGLMMoE builds glm4_moe: Llama's blocks with glm's biases and experts as in deepseek_v3.
func buildGLMMoE(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	b = b.attendingAs(c.QKRMSNorm)
	return b.model(in, func(in *nn.Init, i int) block {
		out := b.block(in, i).(residual)
		b.chooseAsDeepseek(out.mlp, in.At("mlp"))
		return out
	}), nil
}

// attendingAs returns a builder whose attention has the configured biases on queries, keys and values, but
// none on the output projection, and norms of queries and keys if qkNorm.
func (b llamaBuilder) attendingAs(qkNorm bool) llamaBuilder {
	f := *b.family
	f.qkvBias, f.qkNorm, b.AttentionBias = b.AttentionBias, qkNorm, false
	b.family = &f
	return b
}
