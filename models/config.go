package models

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
)

// Config is the shape of a model, in one form for every family. The zero value of a field that config.json may leave
// out means the family's default.
type Config struct {
	// Family is the model_type: llama, mistral, qwen2, qwen3, gpt2 or mixtral.
	Family string
	// DType is what the checkpoint holds; Invalid where it does not say.
	DType array.DType

	Vocab, Hidden, Intermediate, Layers, Heads int
	// KVHeads is the number of key and value heads: a divisor of Heads, which is also the default.
	KVHeads int
	// HeadDim is Hidden / Heads by default.
	HeadDim int
	// Positions is the longest sequence; only GPT-2, which learns its positions, cannot exceed it.
	Positions int
	// Activation is the name that config.json uses, such as silu or gelu_new.
	Activation string
	NormEps    float64
	// InitStd is the deviation of random first weights.
	InitStd float64
	// Tied makes the embedding the output head too.
	Tied bool
	// AttentionBias and MLPBias add biases where the family lets the configuration choose.
	AttentionBias, MLPBias bool
	// Rope is how positions turn queries and keys; GPT-2 has none.
	Rope Rope
	// Window is how many positions, its own included, a token sees in the layers that WindowLayers marks; 0 is all.
	Window       int
	WindowLayers []bool

	// Experts and ExpertsPerToken are for mixtral.
	Experts, ExpertsPerToken int

	// UnscaledAttention leaves out the division by the root of HeadDim, ScaleByLayer divides by the layer's number:
	// GPT-2's scale_attn_weights and scale_attn_by_inverse_layer_idx.
	UnscaledAttention, ScaleByLayer bool

	// Dropout is kept for Save; models compute without.
	Dropout Dropout
	// Other is the keys of config.json that do not change what the model computes, kept for Save.
	Other map[string]json.RawMessage
}

// Dropout is the probabilities that a checkpoint was trained with.
type Dropout struct{ Embedding, Residual, Attention float64 }

// WindowOf is the window of a layer; 0 is none.
func (c Config) WindowOf(layer int) int {
	if layer < len(c.WindowLayers) && c.WindowLayers[layer] {
		return c.Window
	}
	return 0
}

// Limit is the longest sequence that the model can see: Positions where it learns a vector for each, as GPT-2 does, and 0
// for no limit where positions turn queries and keys.
func (c Config) Limit() int {
	if f, err := familyOf(c.Family); err == nil && f.learnedPositions {
		return c.Positions
	}
	return 0
}

// StopTokens is the eos_token_id of config.json, which may be one number, a list or absent.
func (c Config) StopTokens() []int32 {
	var one int32
	if json.Unmarshal(c.Other["eos_token_id"], &one) == nil {
		return []int32{one}
	}
	var many []int32
	if json.Unmarshal(c.Other["eos_token_id"], &many) != nil {
		return nil
	}
	return many
}

// withDefaults fills in what may be left out.
func (c Config) withDefaults() (Config, error) {
	f, err := familyOf(c.Family)
	if err != nil {
		return c, err
	}
	if c.Heads <= 0 {
		return c, fmt.Errorf("%s: got %d, want at least 1", f.keys.heads, c.Heads)
	}
	fill(&c.KVHeads, c.Heads)
	if c.HeadDim == 0 && c.Hidden%c.Heads != 0 {
		return c, fmt.Errorf("%s %d is not a multiple of %s %d", f.keys.hidden, c.Hidden, f.keys.heads, c.Heads)
	}
	fill(&c.HeadDim, c.Hidden/c.Heads)
	fill(&c.Positions, f.positions)
	fill(&c.Activation, f.activation)
	fill(&c.NormEps, f.eps)
	fill(&c.InitStd, 0.02)
	if f.learnedPositions {
		fill(&c.Intermediate, 4*c.Hidden)
	} else {
		fill(&c.Rope.Type, "default")
		fill(&c.Rope.Theta, f.theta)
	}
	if f.experts {
		fill(&c.Experts, 8)
		fill(&c.ExpertsPerToken, 2)
	}
	return c, c.validate(f)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// The largest sizes that are still believable: beyond them a number is a mistake in the file, and products of sizes
// might not fit an int.
const (
	maxSize   = 1 << 26
	maxLayers = 1 << 14
)

func (c Config) validate(f *family) error {
	k := f.keys
	for _, s := range []struct {
		key    string
		n, max int
	}{
		{"vocab_size", c.Vocab, math.MaxInt32},
		{k.hidden, c.Hidden, maxSize}, {k.intermediate, c.Intermediate, maxSize},
		{k.layers, c.Layers, maxLayers}, {k.heads, c.Heads, maxSize}, {"num_key_value_heads", c.KVHeads, maxSize},
		{"head_dim", c.HeadDim, maxSize}, {k.positions, c.Positions, math.MaxInt32},
	} {
		if s.n < 1 || s.n > s.max {
			return fmt.Errorf("%s: got %d, want 1 to %d", s.key, s.n, s.max)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%s %d is not a multiple of num_key_value_heads %d", k.heads, c.Heads, c.KVHeads)
	}
	if _, err := activationOf(c.Activation); err != nil {
		return fmt.Errorf("%s: %w", k.activation, err)
	}
	if c.NormEps <= 0 || c.InitStd < 0 || math.IsInf(c.NormEps, 0) || math.IsInf(c.InitStd, 0) {
		return fmt.Errorf("%s %v, initializer_range %v: want positive numbers", k.eps, c.NormEps, c.InitStd)
	}
	return c.validateParts(f)
}

// validateParts checks what only some families have.
func (c Config) validateParts(f *family) error {
	if f.learnedPositions {
		if c.KVHeads != c.Heads || c.HeadDim*c.Heads != c.Hidden {
			return fmt.Errorf("%s: want n_embd %d in n_head %d equal heads: got %d heads of keys, head_dim %d",
				c.Family, c.Hidden, c.Heads, c.KVHeads, c.HeadDim)
		}
	} else if err := c.Rope.validate(c.HeadDim); err != nil {
		return err
	}
	if f.experts && (c.Experts < 1 || c.Experts > 1<<16 || c.ExpertsPerToken < 1 || c.ExpertsPerToken > c.Experts) {
		return fmt.Errorf("num_experts_per_tok %d, num_local_experts %d: want 1 or more, and no more per token than there are",
			c.ExpertsPerToken, c.Experts)
	}
	if c.Window < 0 || c.Window > math.MaxInt32 || c.Window == 0 && len(c.WindowLayers) > 0 {
		return fmt.Errorf("sliding_window: got %d, want at least 1", c.Window)
	}
	if n := len(c.WindowLayers); n > 0 && n != c.Layers {
		return fmt.Errorf("layer_types: got %d, want one for each of %d layers", n, c.Layers)
	}
	for _, s := range []array.Shape{
		{c.Vocab, c.Hidden}, {max(c.Experts, 1), 2 * c.Intermediate, c.Hidden}, {c.Heads, c.HeadDim, c.Hidden},
		{c.Positions, c.Hidden},
	} {
		if !s.Valid() {
			return fmt.Errorf("a tensor of shape %v is too large", s)
		}
	}
	return nil
}
