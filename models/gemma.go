package models

import (
	"math"

	"github.com/galley-ml/galley/nn"
)

// buildGemma builds gemma, gemma2 and gemma3_text: Llama's parts with norms that scale by 1 plus a weight,
// and embeddings multiplied by √width. From gemma2 on, the outputs of attention and MLP are normalised, too.
func buildGemma(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	b.newNorm = nn.NewOffsetRMSNorm
	block := b.block
	if f.window > 0 {
		block = b.gemmaBlock
	}
	m := b.model(in, block)
	m.stem.scale = math.Sqrt(float64(c.Hidden))
	m.head.cap = c.LogitCap
	return m, nil
}

func (b llamaBuilder) gemmaBlock(in *nn.Init, i int) block {
	out := residual{attention: b.attention(in.At("self_attn"), i), mlp: b.mlp(in.At("mlp"), i)}
	out.attentionNorm = b.norm(in.At("input_layernorm"), b.Hidden)
	out.attentionPost = b.norm(in.At("post_attention_layernorm"), b.Hidden)
	out.mlpNorm = b.norm(in.At("pre_feedforward_layernorm"), b.Hidden)
	out.mlpPost = b.norm(in.At("post_feedforward_layernorm"), b.Hidden)
	return out
}
