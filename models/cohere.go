package models

import (
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// buildCohere builds cohere and cohere2: parallel blocks of Llama's parts with a LayerNorm without bias,
// interleaved rotary pairs, and a factor for the logits.
func buildCohere(f *family, c Config, in *nn.Init) (*decoder, error) {
	b, err := newLlamaBuilder(f, c)
	if err != nil {
		return nil, err
	}
	base := in.At("model")
	m := &decoder{}
	m.stem.tokens = c.tokens(base.At("embed_tokens"))
	for i := range c.Layers {
		at := base.At("layers").Index(i)
		attention := b.attention(at.At("self_attn"), i)
		if c.QKLayerNorm {
			attention.QHeads = newHeadNorm(at.At("self_attn").At("q_norm"), c.NormEps, c.Heads, c.HeadDim)
			attention.KHeads = newHeadNorm(at.At("self_attn").At("k_norm"), c.NormEps, c.KVHeads, c.HeadDim)
		}
		out := parallel{attention: attention, mlp: b.mlp(at.At("mlp"), i)}
		out.norm = newScaleNorm(at.At("input_layernorm"), c.Hidden, c.NormEps)
		m.blocks = append(m.blocks, out)
	}
	m.norm = newScaleNorm(base.At("norm"), c.Hidden, c.NormEps)
	if !c.Tied {
		m.head.linear = nn.NewLinearNoBias(in.At("lm_head"), c.Hidden, c.Vocab)
	}
	m.head.scale = c.Multipliers.Logits
	return m, nil
}

// newHeadNorm makes a norm of queries or keys with a weight of the given shape.
func newHeadNorm(in *nn.Init, eps float64, shape ...int) *nn.HeadNorm {
	return &nn.HeadNorm{Weights: []*nn.Param{in.Param("weight", shape, nn.Constant(1))}, Eps: eps}
}

// scaleNorm is a LayerNorm with an optional weight and no bias.
type scaleNorm struct {
	weight *nn.Param // nil means ones
	width  int
	eps    float64
}

func newScaleNorm(in *nn.Init, width int, eps float64) *scaleNorm {
	return &scaleNorm{weight: in.Param("weight", []int{width}, nn.Constant(1)), width: width, eps: eps}
}

// Forward normalises the last dim of x.
func (l *scaleNorm) Forward(x *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	zeros := op.Zeros(x.Scope(), x.DType(), l.width)
	scale := op.OnesLike(zeros)
	if l.weight != nil {
		scale = l.weight.Value
	}
	return op.LayerNorm(x, scale, zeros, l.eps)
}
