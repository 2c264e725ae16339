package models

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
)

// ggufName returns what llama.cpp calls a parameter of a family; empty where it has no name.
func ggufName(family, name string) string {
	switch name {
	case "model.embed_tokens.weight":
		return "token_embd.weight"
	case "model.norm.weight":
		return "output_norm.weight"
	case headName:
		return "output.weight"
	}
	rest, ok := strings.CutPrefix(name, "model.layers.")
	layer, part, cut := strings.Cut(rest, ".")
	dot := strings.LastIndex(part, ".")
	if !ok || !cut || dot < 0 {
		return ""
	}
	short := map[string]string{
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
		"self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
		"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
		"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
	}[part[:dot]]
	if family == "olmo2" { // norms follow what they are called after
		if after, ok := map[string]string{"post_attention_layernorm": "post_attention_norm",
			"post_feedforward_layernorm": "post_ffw_norm"}[part[:dot]]; ok {
			short = after
		}
	}
	if short == "" {
		return ""
	}
	return "blk." + layer + "." + short + part[dot:]
}

// turns reports whether a file of llama's has a parameter's rows in another order.
func turns(c Config, name string) bool {
	return (c.Family == "llama" || c.Family == "mistral" || c.Family == "granite") &&
		(strings.Contains(name, "self_attn.q_proj.") || strings.Contains(name, "self_attn.k_proj."))
}

// besides returns the row of llama.cpp's order that row i of ours becomes: elements that are half a head
// apart are side by side.
func besides(i, headDim int) int {
	head, at := i/headDim, i%headDim
	return head*headDim + at%(headDim/2)*2 + at/(headDim/2)
}

// turned returns an array with its rows in the other order, to llama.cpp's or back.
func turned(a array.Array, headDim int, back bool) array.Array {
	out := array.New(a.DType(), a.Shape()...)
	rows := a.Shape()[0]
	size := len(a.Bytes()) / rows
	for i := range rows {
		from, to := i, besides(i, headDim)
		if back {
			from, to = to, from
		}
		copy(out.Bytes()[to*size:(to+1)*size], a.Bytes()[from*size:(from+1)*size])
	}
	return out
}

// turnedBack is like turned for integers, from llama.cpp's order.
func turnedBack(m quant.Matrix, headDim int) quant.Matrix {
	out, n := m, m.Groups()
	out.Values, out.Scales = make([]byte, len(m.Values)), make([]float32, len(m.Scales))
	for i := range m.Out {
		from := besides(i, headDim)
		copy(out.Values[i*m.In:(i+1)*m.In], m.Values[from*m.In:])
		copy(out.Scales[i*n:(i+1)*n], m.Scales[from*n:])
	}
	return out
}
