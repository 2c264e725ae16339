package models

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
)

// ggufName returns llama.cpp's name of a family's parameter; empty if it has none.
func ggufName(family, name string) string {
	f := ggufFamilies()[family]
	stem, kind := name, ".bias" // the bias of a router is a parameter of its own
	if dot := strings.LastIndex(name, "."); dot >= 0 && (name[dot:] == ".weight" || name[dot:] == ".bias") {
		stem, kind = name[:dot], name[dot:]
	}
	if own, ok := f.names[stem]; ok {
		return own + kind
	}
	if own, ok := llamaNames()[stem]; ok {
		return own + kind
	}
	for _, before := range []string{"model.layers.", "transformer.h.", "gpt_neox.layers."} {
		rest, ok := strings.CutPrefix(stem, before)
		layer, part, cut := strings.Cut(rest, ".")
		if !ok || !cut {
			continue
		}
		short, own := f.names[part]
		if !own {
			short = llamaNames()[part]
		}
		if short != "" {
			return "blk." + layer + "." + short + kind
		}
	}
	return ""
}

// llamaNames maps parts of llama's layers, and what is outside of them, to llama.cpp's names.
func llamaNames() map[string]string {
	return map[string]string{
		"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
		"self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
		"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
		"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
		"mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
		"mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
	}
}

// ggufNames returns the tensors of a parameter: one, except that gate and up of experts are separate.
func ggufNames(family, name string) []string {
	if layer, ok := strings.CutSuffix(name, ".mlp.experts.gate_up_proj"); ok {
		at := "blk." + strings.TrimPrefix(layer, "model.layers.")
		return []string{at + ".ffn_gate_exps.weight", at + ".ffn_up_exps.weight"}
	}
	if layer, ok := strings.CutSuffix(name, ".mlp.experts.down_proj"); ok {
		return []string{"blk." + strings.TrimPrefix(layer, "model.layers.") + ".ffn_down_exps.weight"}
	}
	if one := ggufName(family, name); one != "" {
		return []string{one}
	}
	return nil
}

// halved returns part i of n of each expert's rows, from [experts, rows, columns].
func halved(a array.Array, i, n int) array.Array {
	shape := a.Shape()
	rows := shape[1] / n
	out := array.New(a.DType(), shape[0], rows, shape[2])
	size := len(a.Bytes()) / (shape[0] * n)
	for e := range shape[0] {
		copy(out.Bytes()[e*size:(e+1)*size], a.Bytes()[(e*n+i)*size:])
	}
	return out
}

// joined is the inverse of halved.
func joined(parts []array.Array) array.Array {
	if len(parts) == 1 {
		return parts[0]
	}
	shape, n := parts[0].Shape(), len(parts)
	out := array.New(parts[0].DType(), shape[0], shape[1]*n, shape[2])
	size := len(parts[0].Bytes()) / shape[0]
	for i, a := range parts {
		for e := range shape[0] {
			copy(out.Bytes()[(e*n+i)*size:], a.Bytes()[e*size:(e+1)*size])
		}
	}
	return out
}

// joinedMatrices is like joined for integers: one matrix below the other, by expert.
func joinedMatrices(parts []quant.Matrix, experts int) (quant.Matrix, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	rows := parts[0].Out / experts
	var all []quant.Matrix
	for e := range experts {
		for _, m := range parts {
			all = append(all, m.Rows(e*rows, (e+1)*rows))
		}
	}
	return quant.Stacked(all)
}
