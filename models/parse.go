package models

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley/array"
)

const configName = "config.json"

// ReadConfig reads the config.json of a Hugging Face directory.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, configName)
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("models: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("models: %s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of a config.json, as transformers 5 writes it or as its forerunners did.
func ParseConfig(text []byte) (Config, error) {
	r, err := newReader(text)
	if err != nil {
		return Config{}, err
	}
	c := Config{Family: r.string("model_type", "")}
	if r.err != nil {
		return Config{}, r.err
	}
	f, err := familyOf(c.Family)
	if err != nil {
		return Config{}, err
	}
	r.take("architectures")
	r.take("transformers_version")
	r.common(f, &c)
	if f.learnedPositions {
		r.gpt2(&c)
	} else {
		r.llama(f, &c)
	}
	c.Other = r.rest()
	if r.err != nil {
		return Config{}, r.err
	}
	return c.withDefaults()
}

// common reads what all families have, under whatever name.
func (r *reader) common(f *family, c *Config) {
	c.DType = r.dtype()
	c.Vocab = r.size("vocab_size")
	c.Hidden = r.size(f.keys.hidden)
	c.Layers = r.size(f.keys.layers)
	c.Heads = r.size(f.keys.heads)
	c.Positions = r.count(f.keys.positions, f.positions)
	c.Activation = r.string(f.keys.activation, f.activation)
	c.Tied = r.bool("tie_word_embeddings", f.tied)
	c.InitStd = r.float("initializer_range", 0.02)
	given := r.has(f.keys.eps)
	c.NormEps = r.float(f.keys.eps, f.eps)
	if given && c.NormEps <= 0 {
		r.fail(f.keys.eps, "got %v, want a positive number", c.NormEps)
	}
}

func (r *reader) gpt2(c *Config) {
	c.Intermediate = r.count("n_inner", 4*c.Hidden)
	c.UnscaledAttention = !r.bool("scale_attn_weights", true)
	c.ScaleByLayer = r.bool("scale_attn_by_inverse_layer_idx", false)
	c.Dropout = Dropout{
		Embedding: r.probability("embd_pdrop"),
		Residual:  r.probability("resid_pdrop"),
		Attention: r.probability("attn_pdrop"),
	}
}

func (r *reader) llama(f *family, c *Config) {
	c.Intermediate = r.size("intermediate_size")
	c.KVHeads = r.count("num_key_value_heads", 0)
	c.HeadDim = r.count("head_dim", 0)
	c.Dropout.Attention = r.probability("attention_dropout")
	if f.name == "llama" || f.qkNorm {
		c.AttentionBias = r.bool("attention_bias", false)
	}
	if f.name == "llama" {
		c.MLPBias = r.bool("mlp_bias", false)
	}
	if f.experts {
		c.Experts = r.count("num_local_experts", 8)
		c.ExpertsPerToken = r.count("num_experts_per_tok", 2)
	}
	switch f.name {
	case "mistral", "mixtral":
		r.windowEverywhere(f, c)
	case "qwen2", "qwen3":
		r.windowByLayer(c)
	}
	r.rope(f, c)
}

// windowEverywhere reads the window of families in which it holds in every layer. A key that is left out means the
// family's window, null means none.
func (r *reader) windowEverywhere(f *family, c *Config) {
	if _, ok := r.raw["sliding_window"]; !ok {
		c.Window = f.window
	} else {
		c.Window = r.count("sliding_window", 0)
	}
	if c.Window > 0 && c.Layers <= maxLayers {
		c.WindowLayers = make([]bool, max(c.Layers, 0))
		for i := range c.WindowLayers {
			c.WindowLayers[i] = true
		}
	}
}

// windowByLayer reads qwen's window: a list of layers, or all from max_window_layers up.
func (r *reader) windowByLayer(c *Config) {
	window := r.count("sliding_window", 4096)
	use := r.bool("use_sliding_window", false)
	first := r.int("max_window_layers", 28)
	types := get(r, "layer_types", "a list of strings", []string(nil))
	if types != nil && len(types) != c.Layers {
		r.fail("layer_types", "got %d, want one for each of %d layers", len(types), c.Layers)
	}
	if c.Layers > maxLayers || r.err != nil {
		return
	}
	layers, any := make([]bool, c.Layers), false
	for i := range layers {
		layers[i] = use && i >= first
		if types != nil {
			layers[i] = r.layerType(types[i])
		}
		any = any || layers[i]
	}
	if any && !use {
		r.fail("layer_types", "got sliding_attention, want use_sliding_window with it")
	}
	if any {
		c.Window, c.WindowLayers = window, layers
	}
}

// layerType reports whether a layer has a window.
func (r *reader) layerType(name string) bool {
	if name != "full_attention" && name != "sliding_attention" {
		r.fail("layer_types", "got %q, want full_attention or sliding_attention", name)
	}
	return name == "sliding_attention"
}

// rope reads rope_parameters, or rope_scaling and rope_theta beside it.
func (r *reader) rope(f *family, c *Config) {
	theta := r.float("rope_theta", f.theta)
	original := r.count("original_max_position_embeddings", c.Positions)
	key := "rope_parameters"
	if r.has("rope_scaling") {
		if r.has(key) {
			r.take("rope_scaling") // the older name beside the newer one says the same
		} else {
			key = "rope_scaling"
		}
	}
	c.Rope = Rope{Type: "default", Theta: theta}
	v := r.take(key)
	if v == nil {
		return
	}
	in, err := newReader(v)
	if err != nil {
		r.fail(key, "%v", err)
		return
	}
	c.Rope = in.ropeObject(theta, original)
	in.rest()
	if in.err != nil {
		r.fail(key, "%v", in.err)
	}
}

func (r *reader) ropeObject(theta float64, original int) Rope {
	rope := Rope{Type: r.string("rope_type", ""), Theta: r.float("rope_theta", theta)}
	if older := r.string("type", "default"); rope.Type == "" {
		rope.Type = older
	}
	if part := r.float("partial_rotary_factor", 1); part != 1 {
		r.fail("partial_rotary_factor", "not supported: got %v, want 1", part)
	}
	switch rope.Type {
	case "default":
		// Some files carry the other types' numbers beside; transformers does not look at them either.
		for _, key := range []string{"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"} {
			r.take(key)
		}
	case "linear":
		rope.Factor = r.float("factor", 0)
		r.take("original_max_position_embeddings")
	case "llama3":
		rope.Factor = r.float("factor", 0)
		rope.LowFreqFactor = r.float("low_freq_factor", 0)
		rope.HighFreqFactor = r.float("high_freq_factor", 0)
		rope.OriginalPositions = r.count("original_max_position_embeddings", original)
	default:
		r.fail("rope_type", "%q is not supported: want default, linear or llama3", rope.Type)
	}
	return rope
}

// dtype reads the dtype of the weights under either name.
func (r *reader) dtype() array.DType {
	key, name := "dtype", r.string("dtype", "")
	if older := r.string("torch_dtype", ""); name == "" {
		key, name = "torch_dtype", older
	}
	name = strings.TrimPrefix(name, "torch.")
	if name == "" || name == "auto" {
		return array.Invalid
	}
	for _, d := range array.DTypes() {
		if d.IsFloat() && torchName(d) == name {
			return d
		}
	}
	r.fail(key, "got %q, want float32, bfloat16, float16 or float64", name)
	return array.Invalid
}

func torchName(d array.DType) string {
	switch d {
	case array.F64:
		return "float64"
	case array.F32:
		return "float32"
	case array.BF16:
		return "bfloat16"
	case array.F16:
		return "float16"
	}
	return ""
}
