package models

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
)

// ggufName returns llama.cpp's name of a family's parameter; empty if it has none.
func ggufName(family, name string) string {
	switch name {
	case "model.embed_tokens.weight":
		return "token_embd.weight"
	case "model.norm.weight", "model.norm.bias":
		return "output_norm" + name[len("model.norm"):]
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
		"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
		"mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
		"mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
	}[part[:dot]]
	if own, ok := ggufFamilies()[family].names[part[:dot]]; ok {
		short = own
	}
	if short == "" {
		return ""
	}
	return "blk." + layer + "." + short + part[dot:]
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

// turns reports whether a file has a parameter's rows in another order.
func turns(c Config, name string) bool {
	return ggufFamilies()[c.Family].turned &&
		(strings.Contains(name, "self_attn.q_proj.") || strings.Contains(name, "self_attn.k_proj."))
}

// offset returns what a file adds to a parameter: gemma's norms include the 1 that we add.
func offset(c Config, name string) float32 {
	if strings.HasSuffix(name, "norm.weight") {
		return ggufFamilies()[c.Family].offset
	}
	return 0
}

// shifted adds a number to all elements.
func shifted(a array.Array, by float32) array.Array {
	x := make([]float32, a.Len())
	packed.Floats(x, a, 0)
	for i := range x {
		x[i] += by
	}
	return array.FromSlice(x, a.Shape()...)
}

// besides returns the row in llama.cpp's order of our row i: elements half a head apart become adjacent.
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

// turnedBack is like turned for quantized matrices, from llama.cpp's order.
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
