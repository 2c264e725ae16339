package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/gguf"
)

// IsGGUF reports whether a path is that of a file in llama.cpp's format and not of a directory.
func IsGGUF(path string) bool { return strings.HasSuffix(path, ".gguf") }

// ggufArchitectures returns the families whose files are read and written. What differs besides their names
// is how heads are stored: llama's have the pairs that turn together side by side.
func ggufArchitectures() map[string]string {
	return map[string]string{"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "olmo2": "olmo2",
		"granite": "granite"}
}

// ggufTokenizer is the key of the whole tokenizer.json.
const ggufTokenizer = "tokenizer.huggingface.json"

// GGUFTokenizer returns the text of the tokenizer.json that a file holds; nil where it holds none.
func GGUFTokenizer(path string) ([]byte, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	defer f.Close()
	text, ok := f.Meta[ggufTokenizer].(string)
	if !ok {
		return nil, nil
	}
	return []byte(text), nil
}

// GGUFChatTemplate returns the chat template that a file holds, empty where it holds none, and the special
// tokens that it may name.
func GGUFChatTemplate(path string) (text string, tokens map[string]any, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("models: %w", err)
	}
	defer f.Close()
	text, _ = f.Meta["tokenizer.chat_template"].(string)
	all, _ := f.Meta["tokenizer.ggml.tokens"].([]any)
	tokens = map[string]any{}
	for _, name := range []string{"bos", "eos"} {
		if id, ok := f.Meta["tokenizer.ggml."+name+"_token_id"].(uint64); ok && id < uint64(len(all)) {
			tokens[name+"_token"] = all[id]
		}
	}
	return text, tokens, nil
}

// readGGUFConfig returns a model's shape by the metadata of its file.
func readGGUFConfig(path string) (Config, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("models: %w", err)
	}
	defer f.Close()
	c, err := ggufConfig(f)
	if err != nil {
		return Config{}, fmt.Errorf("models: %s: %w", path, err)
	}
	return c, nil
}

// metadata takes keys of an architecture; the first mistake stays.
type metadata struct {
	*gguf.File
	arch string
	used map[string]bool
	err  error
}

func (m *metadata) take(key string) (any, bool) {
	key = m.arch + "." + key
	m.used[key] = true
	v, ok := m.Meta[key]
	return v, ok
}

func (m *metadata) fail(key, format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("key %q: %s", m.arch+"."+key, fmt.Sprintf(format, args...))
	}
}

// size returns a positive number; def where it is left out, which 0 forbids.
func (m *metadata) size(key string, def int) int {
	v, ok := m.take(key)
	if !ok && def > 0 {
		return def
	}
	n, _ := v.(uint64)
	if i, ok := v.(int64); ok && i > 0 {
		n = uint64(i)
	}
	if n < 1 || n > 1<<31 {
		m.fail(key, "got %v, want a positive number", v)
		return 1
	}
	return int(n)
}

func (m *metadata) float(key string, def float64) float64 {
	v, ok := m.take(key)
	if !ok && def > 0 {
		return def
	}
	x, ok := v.(float64)
	if !ok {
		m.fail(key, "got %v, want a number", v)
	}
	return x
}

// rest is a mistake where a key of the architecture is left that says anything.
func (m *metadata) rest() {
	for _, key := range sortedKeys(m.Meta) {
		short, ours := strings.CutPrefix(key, m.arch+".")
		if !ours || m.used[key] {
			continue
		}
		switch v := m.Meta[key].(type) {
		case uint64:
			ours = v != 0
		case bool:
			ours = v
		case string:
			ours = v != "" && v != "none"
		}
		if ours {
			m.fail(short, "not supported: it may change the model: got %v", short40(m.Meta[key]))
		}
	}
}

func short40(v any) string { return short([]byte(fmt.Sprint(v))) }

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ggufConfig says in config.json's words what metadata say, so that one place knows the defaults.
func ggufConfig(f *gguf.File) (Config, error) {
	arch, _ := f.Meta["general.architecture"].(string)
	family, ok := ggufArchitectures()[arch]
	if !ok {
		return Config{}, fmt.Errorf("general.architecture: got %q, want one of granite, llama, olmo2, qwen2, qwen3",
			arch)
	}
	m := &metadata{File: f, arch: arch, used: map[string]bool{}}
	table, ok := f.Tensor("token_embd.weight")
	if !ok || len(table.Shape) != 2 {
		return Config{}, fmt.Errorf("tensor %q: missing", "token_embd.weight")
	}
	_, head := f.Tensor("output.weight")
	_, bias := f.Tensor("blk.0.attn_output.bias")
	hidden, heads := m.size("embedding_length", 0), m.size("attention.head_count", 0)
	dim := m.size("attention.key_length", max(1, hidden/max(1, heads)))
	config := map[string]any{
		"model_type": family, "vocab_size": table.Shape[0], "hidden_size": hidden,
		"intermediate_size": m.size("feed_forward_length", 0), "num_hidden_layers": m.size("block_count", 0),
		"num_attention_heads": heads, "num_key_value_heads": m.size("attention.head_count_kv", heads),
		"head_dim":                dim,
		"max_position_embeddings": m.size("context_length", 0),
		"rms_norm_eps":            m.float("attention.layer_norm_rms_epsilon", 0),
		"rope_theta":              m.float("rope.freq_base", 10000), "tie_word_embeddings": !head,
	}
	if family != "qwen2" {
		config["attention_bias"] = bias
	}
	if family == "granite" {
		for key, word := range graniteScales() {
			config[word] = m.float(key, 1)
		}
	}
	m.alike("rope.dimension_count", dim)
	m.alike("attention.value_length", dim)
	m.alike("vocab_size", table.Shape[0])
	m.rest()
	if m.err != nil {
		return Config{}, m.err
	}
	if end, ok := f.Meta["tokenizer.ggml.eos_token_id"].(uint64); ok {
		config["eos_token_id"] = end
	}
	text, err := json.Marshal(config)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(text)
}

// graniteScales returns what llama.cpp and config.json call the numbers that granite multiplies by.
func graniteScales() map[string]string {
	return map[string]string{
		"attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
		"residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
	}
}

// alike is a mistake where a key is there and is not what is wanted.
func (m *metadata) alike(key string, want int) {
	if got := m.size(key, want); got != want {
		m.fail(key, "got %d, want %d", got, want)
	}
}
