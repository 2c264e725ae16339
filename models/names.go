package models

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
)

const headName = "lm_head.weight"

// aliases are the names under which a parameter may be stored as it is, the likeliest first.
func aliases(c Config, name string) []string {
	f, err := familyOf(c.Family)
	if err != nil {
		return nil
	}
	names := []string{name}
	if f.experts && strings.HasSuffix(name, ".mlp.gate.weight") {
		names = append(names, strings.Replace(name, ".mlp.gate.", ".block_sparse_moe.gate.", 1))
	}
	for _, n := range names {
		if short, ok := strings.CutPrefix(n, f.base); ok {
			names = append(names, short)
		}
	}
	if c.Tied && name == embeddingName(f) {
		names = append(names, headName)
	}
	return names
}

func embeddingName(f *family) string {
	if f.learnedPositions {
		return f.base + "wte.weight"
	}
	return f.base + "embed_tokens.weight"
}

// expertParts are the matrices that Mixtral's checkpoints store in place of a stacked parameter, in the order of its
// bytes: for gate_up_proj each expert's w1 (gate) and w3 (up), for down_proj each w2. It is nil for other parameters.
func expertParts(c Config, name string) []string {
	at, which, ok := strings.Cut(name, ".mlp.experts.")
	if !ok {
		return nil
	}
	matrices := []string{"w1", "w3"}
	if which == "down_proj" {
		matrices = []string{"w2"}
	}
	var parts []string
	for e := range c.Experts {
		for _, w := range matrices {
			parts = append(parts, fmt.Sprintf("%s.block_sparse_moe.experts.%d.%s.weight", at, e, w))
		}
	}
	return parts
}

// stored is a parameter as checkpoints hold it.
func stored(c Config, name string, a array.Array) []safetensors.Named {
	if parts := expertParts(c, name); parts != nil {
		rows := a.Shape()[0] * a.Shape()[1]
		flat, each := a.Reshape(rows, a.Shape()[2]), rows/len(parts)
		named := make([]safetensors.Named, len(parts))
		for i, part := range parts {
			named[i] = safetensors.Named{Name: part, Array: flat.Rows(i*each, (i+1)*each)}
		}
		return named
	}
	if c.Experts > 0 {
		name = strings.Replace(name, ".mlp.gate.", ".block_sparse_moe.gate.", 1)
	}
	return []safetensors.Named{{Name: name, Array: a}}
}

// isBuffer reports whether checkpoints may hold a tensor of this name that is not a parameter: a table that the
// program computes itself, or the second name of tied weights.
func isBuffer(c Config, name string) bool {
	if c.Tied && name == headName {
		return true
	}
	suffixes := []string{"rotary_emb.inv_freq"}
	if c.Family == "gpt2" {
		suffixes = []string{".attn.bias", ".attn.masked_bias"}
	}
	for _, s := range suffixes {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}
