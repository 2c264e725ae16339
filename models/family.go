package models

import (
	"fmt"
	"slices"
	"strings"
)

// family is what models of one model_type have in common beyond their configuration.
type family struct {
	name         string
	architecture string
	// base is what the names of all but the head begin with; a checkpoint of the base model leaves it out.
	base string
	keys keys
	// What config.json means when it leaves a key out.
	eps, theta float64
	positions  int
	activation string
	tied       bool
	window     int

	learnedPositions bool
	experts          bool
	qkvBias          bool
	qkNorm           bool
}

// keys is what a family's config.json calls the sizes.
type keys struct{ hidden, intermediate, layers, heads, positions, eps, activation string }

func llamaKeys() keys {
	return keys{
		hidden: "hidden_size", intermediate: "intermediate_size", layers: "num_hidden_layers",
		heads: "num_attention_heads", positions: "max_position_embeddings", eps: "rms_norm_eps", activation: "hidden_act",
	}
}

func gpt2Keys() keys {
	return keys{
		hidden: "n_embd", intermediate: "n_inner", layers: "n_layer", heads: "n_head", positions: "n_positions",
		eps: "layer_norm_epsilon", activation: "activation_function",
	}
}

func families() []family {
	like := func(f family) family {
		f.base, f.keys, f.activation = "model.", llamaKeys(), "silu"
		return f
	}
	return []family{
		{
			name: "gpt2", architecture: "GPT2LMHeadModel", base: "transformer.", keys: gpt2Keys(), eps: 1e-5,
			positions: 1024, activation: "gelu_new", tied: true, learnedPositions: true,
		},
		like(family{name: "llama", architecture: "LlamaForCausalLM", eps: 1e-6, theta: 1e4, positions: 2048}),
		like(family{name: "mistral", architecture: "MistralForCausalLM", eps: 1e-6, theta: 1e4, positions: 131072, window: 4096}),
		like(family{name: "mixtral", architecture: "MixtralForCausalLM", eps: 1e-5, theta: 1e6, positions: 131072, experts: true}),
		like(family{name: "qwen2", architecture: "Qwen2ForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768, qkvBias: true}),
		like(family{name: "qwen3", architecture: "Qwen3ForCausalLM", eps: 1e-6, theta: 1e4, positions: 32768, qkNorm: true}),
	}
}

// Families lists the model types that can be built.
func Families() []string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return names
}

func familyOf(name string) (*family, error) {
	all := families()
	i := slices.IndexFunc(all, func(f family) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("model_type: got %q, want one of %s", name, strings.Join(Families(), ", "))
	}
	return &all[i], nil
}
