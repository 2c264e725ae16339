package torchop

import (
	"github.com/galley-ml/galley/op"
)

func attentions() map[string]builder {
	return map[string]builder{"attention": attention, "scaled_dot_product_attention": scaledDotProduct,
		"rope": rope}
}

// attention has operands [batch, seq, heads, dim], and an optional mask as its fourth.
func attention(a *attrs) Func {
	causal := a.bool("causal", false)
	c := op.AttentionConfig{Causal: a.bool("is_causal", causal), Scale: a.float("scale", 0),
		Window: a.int("window", 0)}
	c.Cap = a.float("softcap", a.float("logit_cap", 0))
	c.Offset = a.int("offset", 0)
	a.bool("enable_gqa", true) // query heads share key heads whenever there are fewer of these
	a.never("dropout_p")
	return liftSome(3, 4, func(in []*op.Tensor) *op.Tensor {
		if in[3] != nil {
			return op.MaskedAttention(in[0], in[1], in[2], in[3], c)
		}
		return op.Attention(in[0], in[1], in[2], c)
	})
}

// scaledDotProduct is attention in PyTorch's own order: [batch, heads, seq, dim].
func scaledDotProduct(a *attrs) Func {
	f := attention(a)
	return Func{3, 4, func(in []*op.Tensor) []*op.Tensor {
		turned := append([]*op.Tensor{}, in...)
		for i := range 3 {
			turned[i] = op.Transpose(in[i], 0, 2, 1, 3)
		}
		return one(op.Transpose(f.Of(turned)[0], 0, 2, 1, 3))
	}}
}

// rope rotates by the position in the sequence, or by positions that are its second operand.
func rope(a *attrs) Func {
	c := op.RoPEConfig{Theta: a.float("theta", 10000), Style: a.string("style", ""), Dim: a.int("rotary_dim",
		a.int("dim", 0)),
		Offset: a.int("offset", 0), Factor: a.float("factor", 0)}
	return liftSome(1, 2, func(in []*op.Tensor) *op.Tensor {
		c := c
		c.Positions = in[1]
		return op.RoPE(in[0], c)
	})
}
