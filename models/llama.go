package models

import (
	"math"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildLlama makes llama and what differs from it in details only: mistral, qwen2, qwen3 and mixtral.
func buildLlama(c Config, in *nn.Init) (*decoder, error) {
	f, err := familyOf(c.Family)
	if err != nil {
		return nil, err
	}
	act, err := gateOf(c.Activation)
	if err != nil {
		return nil, err
	}
	b := llamaBuilder{Config: c, family: f, act: act, rope: c.Rope.config(c.HeadDim)}
	base := in.At("model")
	m := &decoder{embed: nn.NewEmbedding(base.At("embed_tokens"), c.Vocab, c.Hidden)}
	for i := range c.Layers {
		m.blocks = append(m.blocks, b.block(base.At("layers").Index(i), i))
	}
	m.norm = nn.NewRMSNorm(base.At("norm"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	return m, nil
}

type llamaBuilder struct {
	Config
	family *family
	act    nn.Activation
	rope   *op.RoPEConfig
}

// block makes the parts in the order in which transformers lists their parameters.
func (b llamaBuilder) block(in *nn.Init, i int) block {
	var out block
	out.attention = b.attention(in.At("self_attn"), i)
	out.mlp = b.mlp(in.At("mlp"))
	out.attentionNorm = nn.NewRMSNorm(in.At("input_layernorm"), b.Hidden, b.NormEps)
	out.mlpNorm = nn.NewRMSNorm(in.At("post_attention_layernorm"), b.Hidden, b.NormEps)
	return out
}

func (b llamaBuilder) attention(in *nn.Init, i int) *nn.Attention {
	qkv, out := linearNoBias, linearNoBias
	if b.AttentionBias {
		qkv, out = linear, linear
	}
	if b.family.qkvBias {
		qkv = linear
	}
	queries, keys := b.Heads*b.HeadDim, b.KVHeads*b.HeadDim
	a := &nn.Attention{
		Q: qkv(in.At("q_proj"), b.Hidden, queries),
		K: qkv(in.At("k_proj"), b.Hidden, keys),
		V: qkv(in.At("v_proj"), b.Hidden, keys),
		O: out(in.At("o_proj"), queries, b.Hidden),
		Heads: nn.Heads{
			Queries: b.Heads, Keys: b.KVHeads, Dim: b.HeadDim, Scale: 1 / math.Sqrt(float64(b.HeadDim)),
			Window: b.WindowOf(i), RoPE: b.rope,
		},
	}
	if b.family.qkNorm {
		a.QNorm = nn.NewRMSNorm(in.At("q_norm"), b.HeadDim, b.NormEps)
		a.KNorm = nn.NewRMSNorm(in.At("k_norm"), b.HeadDim, b.NormEps)
	}
	return a
}

func (b llamaBuilder) mlp(in *nn.Init) layer {
	if b.family.experts {
		return nn.NewMoE(in, nn.MoEConfig{
			Hidden: b.Hidden, Intermediate: b.Intermediate, Experts: b.Experts, PerToken: b.ExpertsPerToken, Act: b.act,
		})
	}
	project := linearNoBias
	if b.MLPBias {
		project = linear
	}
	return &nn.GatedMLP{
		Gate: project(in.At("gate_proj"), b.Hidden, b.Intermediate),
		Up:   project(in.At("up_proj"), b.Hidden, b.Intermediate),
		Down: project(in.At("down_proj"), b.Intermediate, b.Hidden),
		Act:  b.act,
	}
}

// linear and linearNoBias have one type, so that a builder can choose.
func linear(in *nn.Init, from, to int) *nn.Linear       { return nn.NewLinear(in, from, to) }
func linearNoBias(in *nn.Init, from, to int) *nn.Linear { return nn.NewLinearNoBias(in, from, to) }
