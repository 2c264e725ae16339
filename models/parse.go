package models

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/strict"
)

const configName = "config.json"

// ReadConfig reads the config.json of a Hugging Face directory, or the metadata of a GGUF file.
func ReadConfig(dir string) (Config, error) {
	if IsGGUF(dir) {
		return readGGUFConfig(dir)
	}
	path := filepath.Join(dir, configName)
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return Config{}, fmt.Errorf("models: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("models: %s: %w", path, err)
	}
	return c, nil
}

// ParseConfig parses a config.json, as transformers 5 or its predecessors write it. Quantization settings are
// checked but not part of a Config, which describes the model independent of how its weights are stored.
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
	r.architecture(f, &c)
	r.take("transformers_version")
	r.common(f, &c)
	r.quantization()
	f.read(r, f, &c)
	c.Other = r.rest()
	if r.err != nil {
		return Config{}, r.err
	}
	return c.withDefaults()
}

// common reads the keys of all families, under any of their names.
func (r *reader) common(f *family, c *Config) {
	c.DType = r.dtype()
	if !f.images {
		c.Vocab = r.size("vocab_size")
	}
	c.Hidden = r.size(f.keys.hidden)
	c.Layers = r.size(f.keys.layers)
	if f.keys.heads != "" {
		c.Heads = r.size(f.keys.heads)
	}
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

// architecture reads which head the model has, and refuses heads that the family does not support.
func (r *reader) architecture(f *family, c *Config) {
	for _, name := range get(r, "architectures", "a list of strings", []string(nil)) {
		task, ok := f.taskOf(name)
		if !ok {
			r.fail("architectures", "got %q, want %s", name, strings.Join(f.architectures(), " or "))
		}
		c.Task = task
	}
}

// taskOf returns the task of an architecture's head.
func (f *family) taskOf(architecture string) (Task, bool) {
	for _, t := range []Task{Classify, ClassifyTokens, Answer} {
		if name := f.architectureOf(t); name != "" && plainName(name) == plainName(architecture) {
			return t, true
		}
	}
	return Predict, f.builds(architecture)
}

// plainName returns an architecture without what versions spell differently.
func plainName(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

// builds reports whether an architecture is the family's: with its head, or without any.
func (f *family) builds(architecture string) bool {
	whole := plainName(f.architecture)
	stem := whole
	for _, head := range []string{"forcausallm", "formaskedlm", "lmheadmodel", "forimageclassification"} {
		stem = strings.TrimSuffix(stem, head)
	}
	got := plainName(architecture)
	return got == whole || got == stem+"model"
}

// attention reads the numbers and sizes of heads.
func (r *reader) attention(c *Config) {
	kvHeads, headDim := headsLeftOut(c.Family)
	c.KVHeads = r.countUnlessNull("num_key_value_heads", kvHeads)
	c.HeadDim = r.countUnlessNull("head_dim", headDim)
	c.Dropout.Attention = r.probability("attention_dropout")
}

// layerTypes reads which layers have a sliding window; byDefault decides if there is no list.
func (r *reader) layerTypes(c *Config, byDefault func(layer int) bool) []bool {
	types := get(r, "layer_types", "a list of strings", []string(nil))
	if types != nil && len(types) != c.Layers {
		r.fail("layer_types", "got %d, want one for each of %d layers", len(types), c.Layers)
	}
	if c.Layers > maxLayers || r.err != nil {
		return nil
	}
	layers := make([]bool, c.Layers)
	for i := range layers {
		if types != nil {
			layers[i] = r.layerType(types[i])
		} else {
			layers[i] = byDefault(i)
		}
	}
	return layers
}

// windowEverywhere reads the sliding window of families that have it in every layer. An omitted key means the
// family's default, null means none.
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

// layerType reports whether a layer has a sliding window.
func (r *reader) layerType(name string) bool {
	if name != "full_attention" && name != "sliding_attention" {
		r.fail("layer_types", "got %q, want full_attention or sliding_attention", name)
	}
	return name == "sliding_attention"
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
