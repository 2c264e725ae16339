package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/gguf"
)

// IsGGUF reports whether a path is that of a GGUF file, llama.cpp's format, rather than of a directory.
func IsGGUF(path string) bool { return strings.HasSuffix(path, ".gguf") }

// ggufTokenizer is the key of the complete tokenizer.json.
const ggufTokenizer = "tokenizer.huggingface.json"

// GGUFTokenizer returns the tokenizer.json in a file; nil if there is none.
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

// GGUFChatTemplate returns the chat template in a file, empty if there is none, and the special tokens that
// it may refer to.
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

// readGGUFConfig returns a model's configuration from the metadata of its file.
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

// metadata reads the keys of an architecture; it keeps the first error.
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

// size returns a positive number, or def if it is omitted; a def of 0 means that it is required.
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

// natural is like size for a number that may be 0.
func (m *metadata) natural(key string) int {
	if v, ok := m.take(key); !ok || v == uint64(0) || v == int64(0) {
		return 0
	}
	return m.size(key, 0)
}

func (m *metadata) bool(key string, def bool) bool {
	v, ok := m.take(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		m.fail(key, "got %v, want true or false", v)
	}
	return b
}

// rest reports an error if unread keys of the architecture have an effect.
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

// ggufConfig translates metadata to the keys of config.json, so that defaults are defined in one place.
func ggufConfig(f *gguf.File) (Config, error) {
	name, family, err := ggufFamilyOf(f)
	if err != nil {
		return Config{}, err
	}
	about, err := familyOf(name)
	if err != nil {
		return Config{}, err
	}
	m := &metadata{File: f, arch: family.arch, used: map[string]bool{}}
	config, err := m.sizes(about, family)
	if err != nil {
		return Config{}, err
	}
	m.positions(about, family, config)
	if eps := m.float(family.epsilon()[1:], 0); about.keys.eps != "" {
		config[about.keys.eps] = eps
	} else if float32(eps) != float32(about.eps) {
		m.fail(family.epsilon()[1:], "got %v, want %v", eps, about.eps)
	}
	if family.experts != "" {
		config[family.experts] = m.size("expert_count", 0)
		config[about.keys.perToken] = m.size("expert_used_count", 0)
	}
	if family.words != nil {
		family.words(m, config)
	}
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

// sizes reads what all families have.
func (m *metadata) sizes(about *family, family ggufFamily) (map[string]any, error) {
	table, ok := m.Tensor("token_embd.weight")
	if !ok || len(table.Shape) != 2 {
		return nil, fmt.Errorf("tensor %q: missing", "token_embd.weight")
	}
	_, head := m.Tensor("output.weight")
	k := about.keys
	config := map[string]any{
		"model_type": about.name, "vocab_size": table.Shape[0], k.hidden: m.size("embedding_length", 0),
		k.intermediate: m.size("feed_forward_length", 0), k.layers: m.size("block_count", 0),
		k.heads: m.size("attention.head_count", 0), k.positions: m.size("context_length", 0),
		"tie_word_embeddings": !head,
	}
	m.alike("vocab_size", table.Shape[0])
	if family.latent {
		readLatent(m, config)
		return config, nil
	}
	hidden, heads := config[k.hidden].(int), config[k.heads].(int)
	dim := m.size("attention.key_length", max(1, hidden/max(1, heads)))
	m.alike("attention.value_length", dim)
	config["num_key_value_heads"], config["head_dim"] = m.size("attention.head_count_kv", heads), dim
	return config, nil
}

// positions reads the rotary ones.
func (m *metadata) positions(about *family, family ggufFamily, config map[string]any) {
	if !about.rotary {
		return
	}
	m.stretched(config, config[about.keys.positions].(int))
	dim, whole := config["head_dim"].(int)
	switch {
	case !whole: // said by the sizes of latent attention
	case family.part:
		config["partial_rotary_factor"] = float64(m.size("rope.dimension_count", dim)) / float64(dim)
	default:
		m.alike("rope.dimension_count", dim)
	}
}

// alike reports an error if a key is present with another value.
func (m *metadata) alike(key string, want int) {
	if got := m.size(key, want); got != want {
		m.fail(key, "got %d, want %d", got, want)
	}
}
