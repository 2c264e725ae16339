package models

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// latentEps is the epsilon of the norms of compressed vectors, independent of the configuration.
const latentEps = 1e-6

// buildDeepseek builds deepseek_v2 and deepseek_v3: latent attention and, from some layer on, a mixture of
// experts with shared experts.
func buildDeepseek(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	layer := func(in *nn.Init, i int) block {
		out := residual{attention: b.latent(in.At("self_attn"), i), mlp: b.mlp(in.At("mlp"), i)}
		b.chooseAsDeepseek(out.mlp, in.At("mlp"))
		out.attentionNorm = b.norm(in.At("input_layernorm"), b.Hidden)
		out.mlpNorm = b.norm(in.At("post_attention_layernorm"), b.Hidden)
		return out
	}
	m := b.model(in, layer)
	m.ahead = b.aheadLayers(in, layer)
	return m, nil
}

// chooseAsDeepseek gives a mixture its selection bias and its shared experts.
func (b llamaBuilder) chooseAsDeepseek(mlp layer, in *nn.Init) {
	moe, ok := mlp.(*nn.MoE)
	if !ok {
		return
	}
	if b.Mixture.Routing.Sigmoid {
		moe.Bias = in.At("gate").Fixed("e_score_correction_bias", array.Shape{b.Experts}, nn.Constant(0))
	}
	moe.Shared = b.sharedExperts(in)
}

func (b llamaBuilder) latent(in *nn.Init, i int) *nn.LatentAttention {
	l, down := b.Latent, linearNoBias
	if b.AttentionBias {
		down = linear
	}
	a := &nn.LatentAttention{Rank: l.KVRank, Plain: l.Plain, Value: l.Value, Heads: b.heads(i)}
	a.Heads.RoPE = b.ropeOf(i).config(l.Turned)
	a.Heads.Scale *= b.latentScale()
	a.Heads.Dropout = attentionDropout(in, b.Config)
	if queries := b.Heads * b.HeadDim; l.QRank == 0 {
		a.QUp = linearNoBias(in.At("q_proj"), b.Hidden, queries)
	} else {
		a.QDown = down(in.At("q_a_proj"), b.Hidden, l.QRank)
		a.QNorm = nn.NewRMSNorm(in.At("q_a_layernorm"), l.QRank, latentEps)
		a.QUp = linearNoBias(in.At("q_b_proj"), l.QRank, queries)
	}
	a.KVDown = down(in.At("kv_a_proj_with_mqa"), b.Hidden, l.KVRank+l.Turned)
	a.KVNorm = nn.NewRMSNorm(in.At("kv_a_layernorm"), l.KVRank, latentEps)
	a.KVUp = linearNoBias(in.At("kv_b_proj"), l.KVRank, b.Heads*(l.Plain+l.Value))
	a.O = down(in.At("o_proj"), b.Heads*l.Value, b.Hidden)
	return a
}

// latentScale returns the factor of the scores for extended positions.
func (b llamaBuilder) latentScale() float64 {
	if b.Rope.Type == "default" || b.Rope.MScaleAll == 0 {
		return 1
	}
	return math.Pow(mscale(b.Rope.Factor, b.Rope.MScaleAll), 2)
}
