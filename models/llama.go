package models

import (
	"math"

	"github.com/galley-ml/galley/nn"
)

// buildLlama builds llama and families that differ in details only: mistral, mixtral and qwen.
func buildLlama(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	return b.model(in, b.block), nil
}

// llamaBuilder makes the parts that Llama and related families have in common.
type llamaBuilder struct {
	Config
	family  *family
	act     nn.Activation
	newNorm func(in *nn.Init, width int, eps float64) *nn.RMSNorm
}

func newLlamaBuilder(f *family, c Config) (llamaBuilder, error) {
	act, err := gateOf(c.Activation)
	return llamaBuilder{Config: c, family: f, act: act, newNorm: nn.NewRMSNorm}, err
}

func (b llamaBuilder) norm(in *nn.Init, width int) *nn.RMSNorm {
	return b.newNorm(in, width, b.NormEps)
}

// model returns a model of embedding, blocks, last norm and head.
func (b llamaBuilder) model(in *nn.Init, block func(in *nn.Init, i int) block) *decoder {
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = b.tokens(base.At("embed_tokens"))
	for i := range b.Layers {
		m.blocks = append(m.blocks, block(base.At("layers").Index(i), i))
	}
	m.norm = b.norm(base.At("norm"), b.Hidden)
	if !b.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), b.Hidden, b.Vocab)
	}
	return m
}

// tokens returns the token embedding.
func (c Config) tokens(in *nn.Init) *nn.Embedding {
	table := nn.NewEmbedding(in, c.Vocab, c.tokenWidth())
	if pad, ok := c.padToken(); ok {
		table.Still = &pad
	}
	return table
}

// tokenWidth returns the size of token embeddings.
func (c Config) tokenWidth() int {
	if c.TokenWidth > 0 {
		return c.TokenWidth
	}
	return c.Hidden
}

// block makes the parts in the order in which transformers lists their parameters.
func (b llamaBuilder) block(in *nn.Init, i int) block {
	out := residual{attention: b.attention(in.At("self_attn"), i), mlp: b.mlp(in.At("mlp"), i)}
	out.attentionNorm = b.norm(in.At("input_layernorm"), b.Hidden)
	out.mlpNorm = b.norm(in.At("post_attention_layernorm"), b.Hidden)
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
		Q:     qkv(in.At("q_proj"), b.Hidden, queries),
		K:     qkv(in.At("k_proj"), b.Hidden, keys),
		V:     qkv(in.At("v_proj"), b.Hidden, keys),
		O:     out(in.At("o_proj"), queries, b.Hidden),
		Heads: b.heads(i),
	}
	a.Heads.Dropout = attentionDropout(in, b.Config)
	if b.family.qkNorm {
		a.QNorm = b.norm(in.At("q_norm"), b.HeadDim)
		a.KNorm = b.norm(in.At("k_norm"), b.HeadDim)
	}
	return a
}

// heads returns the configuration of a layer's attention between its projections.
func (c Config) heads(i int) nn.Heads {
	h := nn.Heads{
		Queries: c.Heads, Keys: c.KVHeads, Dim: c.HeadDim, Scale: 1 / math.Sqrt(c.queryScalar()), Cap: c.ScoreCap,
		Window: c.WindowOf(i),
	}
	if i >= len(c.Unturned) || !c.Unturned[i] {
		h.RoPE = c.ropeOf(i).config(c.HeadDim)
	}
	return h
}

func (c Config) queryScalar() float64 {
	if c.QueryScalar != 0 {
		return c.QueryScalar
	}
	return float64(c.HeadDim)
}

func (b llamaBuilder) mlp(in *nn.Init, i int) layer {
	if !b.denseAt(i) {
		return b.mixture(in)
	}
	return b.gated(in, b.Intermediate)
}

// gated returns a plain gated MLP of an inner size.
func (b llamaBuilder) gated(in *nn.Init, width int) *nn.GatedMLP {
	project := linearNoBias
	if b.MLPBias {
		project = linear
	}
	return &nn.GatedMLP{
		Gate: project(in.At("gate_proj"), b.Hidden, width),
		Up:   project(in.At("up_proj"), b.Hidden, width),
		Down: project(in.At("down_proj"), width, b.Hidden),
		Act:  b.act,
	}
}

func (b llamaBuilder) mixture(in *nn.Init) *nn.MoE {
	return nn.NewMoE(in, nn.MoEConfig{
		Hidden: b.Hidden, Intermediate: b.expertWidth(), Experts: b.Experts, PerToken: b.ExpertsPerToken,
		Act:     b.act,
		Routing: b.Mixture.Routing,
	})
}

// linear and linearNoBias have the same type, so that a builder can choose.
func linear(in *nn.Init, from, to int) *nn.Linear       { return nn.NewLinear(in, from, to) }
func linearNoBias(in *nn.Init, from, to int) *nn.Linear { return nn.NewLinearNoBias(in, from, to) }
