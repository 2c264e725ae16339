package models

import "strings"

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

// ggufNames returns the tensors of a parameter: one, except that gate and up of experts are separate, and so
// are the keys and the values of latent vectors.
func ggufNames(family, name string) []string {
	at := func(end string) (string, bool) {
		layer, ok := strings.CutSuffix(name, end)
		return "blk." + strings.TrimPrefix(layer, "model.layers."), ok
	}
	if layer, ok := at(".mlp.experts.gate_up_proj"); ok {
		return []string{layer + ".ffn_gate_exps.weight", layer + ".ffn_up_exps.weight"}
	}
	if layer, ok := at(".mlp.experts.down_proj"); ok {
		return []string{layer + ".ffn_down_exps.weight"}
	}
	if layer, ok := at(".self_attn" + latentEnd); ok {
		return []string{layer + ".attn_k_b.weight", layer + ".attn_v_b.weight"}
	}
	if one := ggufName(family, name); one != "" {
		return []string{one}
	}
	return nil
}

// latentEnd is how the name of the matrix ends that makes keys and values of latent vectors.
const latentEnd = ".kv_b_proj.weight"
