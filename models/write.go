package models

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// MarshalJSON is the text of a config.json in the form of transformers 5.
func (c Config) MarshalJSON() ([]byte, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := familyOf(c.Family)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	for k, v := range c.Other {
		m[k] = v
	}
	maps.Copy(m, map[string]any{
		"model_type": c.Family, "architectures": []string{f.architecture}, "vocab_size": c.Vocab,
		f.keys.hidden: c.Hidden, f.keys.layers: c.Layers, f.keys.heads: c.Heads, f.keys.intermediate: c.Intermediate,
		f.keys.positions: c.Positions, f.keys.activation: c.Activation, f.keys.eps: number(c.NormEps),
		"initializer_range": number(c.InitStd), "tie_word_embeddings": c.Tied,
	})
	if name := torchName(c.DType); name != "" {
		m["dtype"] = name
	}
	if f.learnedPositions {
		c.marshalGPT2(m)
	} else {
		c.marshalLlama(f, m)
	}
	return json.Marshal(m)
}

// UnmarshalJSON is ParseConfig.
func (c *Config) UnmarshalJSON(text []byte) (err error) {
	*c, err = ParseConfig(text)
	return err
}

func (c Config) marshalGPT2(m map[string]any) {
	m["scale_attn_weights"] = !c.UnscaledAttention
	m["scale_attn_by_inverse_layer_idx"] = c.ScaleByLayer
	m["embd_pdrop"] = number(c.Dropout.Embedding)
	m["resid_pdrop"] = number(c.Dropout.Residual)
	m["attn_pdrop"] = number(c.Dropout.Attention)
}

func (c Config) marshalLlama(f *family, m map[string]any) {
	m["num_key_value_heads"] = c.KVHeads
	m["attention_dropout"] = number(c.Dropout.Attention)
	if f.name != "qwen2" || c.HeadDim*c.Heads != c.Hidden {
		m["head_dim"] = c.HeadDim
	}
	if f.name == "llama" || f.qkNorm {
		m["attention_bias"] = c.AttentionBias
	}
	if f.name == "llama" {
		m["mlp_bias"] = c.MLPBias
	}
	if f.experts {
		m["num_local_experts"], m["num_experts_per_tok"] = c.Experts, c.ExpertsPerToken
	}
	if f.name != "llama" {
		m["sliding_window"] = nil
		if c.Window > 0 {
			m["sliding_window"] = c.Window
		}
	}
	if strings.HasPrefix(f.name, "qwen") {
		c.marshalLayers(m)
	}
	rope := map[string]any{"rope_type": c.Rope.Type, "rope_theta": number(c.Rope.Theta)}
	if c.Rope.Type != "default" {
		rope["factor"] = number(c.Rope.Factor)
	}
	if c.Rope.Type == "llama3" {
		rope["low_freq_factor"], rope["high_freq_factor"] = number(c.Rope.LowFreqFactor), number(c.Rope.HighFreqFactor)
		rope["original_max_position_embeddings"] = c.Rope.OriginalPositions
	}
	m["rope_parameters"] = rope
}

// marshalLayers says which layers have a window, as a list and, for readers that do not know the list, as a number.
func (c Config) marshalLayers(m map[string]any) {
	types, first := make([]string, c.Layers), c.Layers
	for i := range types {
		types[i] = "full_attention"
		if c.WindowOf(i) > 0 {
			types[i] = "sliding_attention"
			first = min(first, i)
		}
	}
	m["layer_types"], m["max_window_layers"], m["use_sliding_window"] = types, first, c.Window > 0
}

// number is a float that prints as one, 10000.0: transformers checks the types of what it reads.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	b := strconv.AppendFloat(nil, float64(x), 'g', -1, 64)
	if !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, nil
}
