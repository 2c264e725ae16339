package plan

import (
	"fmt"
	"slices"
	"strings"
)

// llama returns a model with RMSNorm, SwiGLU and rotary positions.
func llama(name string, layers, hidden, heads, kv, ffn, vocab int) Model {
	return Model{Name: name, Layers: layers, Hidden: hidden, Heads: heads, KVHeads: kv, FFN: ffn, Vocab: vocab,
		Gated: true}
}

// gpt returns a model with LayerNorm, GELU, biases, learned positions and a tied output.
func gpt(name string, layers, hidden, heads, positions int) Model {
	return Model{Name: name, Layers: layers, Hidden: hidden, Heads: heads, FFN: 4 * hidden, Vocab: 50257,
		Positions: positions,
		Tied:      true, LayerNorm: true, Bias: true}
}

func qwen(m Model, tied bool) Model { m.QKVBias, m.Tied = true, tied; return m }

// qwen3 adds norms of queries and keys, which replace biases.
func qwen3(m Model) Model { m.HeadDim, m.QKNorm = 128, 2*128; return m }

func dim(m Model, head int) Model { m.HeadDim = head; return m }

func mixtral(m Model, experts, topK int) Model {
	m.Experts = Experts{Count: experts, TopK: topK, FFN: m.FFN}
	return m
}

// models holds the presets, by family, small to large.
var models = []Model{
	llama("llama-2-7b", 32, 4096, 32, 32, 11008, 32000),
	llama("llama-2-13b", 40, 5120, 40, 40, 13824, 32000),
	llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000),
	tied(llama("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256)),
	tied(dim(llama("llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256), 128)),
	llama("llama-3-8b", 32, 4096, 32, 8, 14336, 128256),
	llama("llama-3-70b", 80, 8192, 64, 8, 28672, 128256),
	llama("llama-3-405b", 126, 16384, 128, 8, 53248, 128256),
	gpt("gpt2", 12, 768, 12, 1024),
	gpt("gpt3-125m", 12, 768, 12, 2048),
	gpt("gpt3-350m", 24, 1024, 16, 2048),
	gpt("gpt3-760m", 24, 1536, 16, 2048),
	gpt("gpt3-1.3b", 24, 2048, 16, 2048),
	gpt("gpt3-2.7b", 32, 2560, 32, 2048),
	gpt("gpt3-6.7b", 32, 4096, 32, 2048),
	gpt("gpt3-13b", 40, 5120, 40, 2048),
	gpt("gpt3-175b", 96, 12288, 96, 2048),
	qwen(llama("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 151936), true),
	qwen(llama("qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 151936), true),
	qwen(llama("qwen2.5-3b", 36, 2048, 16, 2, 11008, 151936), true),
	qwen(llama("qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064), false),
	qwen(llama("qwen2.5-14b", 48, 5120, 40, 8, 13824, 152064), false),
	qwen(llama("qwen2.5-32b", 64, 5120, 40, 8, 27648, 152064), false),
	qwen(llama("qwen2.5-72b", 80, 8192, 64, 8, 29568, 152064), false),
	qwen3(llama("qwen3-8b", 36, 4096, 32, 8, 12288, 151936)),
	qwen3(llama("qwen3-32b", 64, 5120, 64, 8, 25600, 151936)),
	mixtral(qwen3(llama("qwen3-30b-a3b", 48, 2048, 32, 4, 768, 151936)), 128, 8),
	mixtral(qwen3(llama("qwen3-235b-a22b", 94, 4096, 64, 4, 1536, 151936)), 128, 8),
	mixtral(llama("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000), 8, 2),
	mixtral(llama("mixtral-8x22b", 56, 6144, 48, 8, 16384, 32768), 8, 2),
	{
		Name: "deepseek-v3", Layers: 61, Hidden: 7168, Heads: 128, FFN: 18432, Vocab: 129280, Gated: true,
		Experts: Experts{Count: 256, TopK: 8, FFN: 2048, Shared: 2048, Dense: 3, Bias: true},
		Latent:  Latent{QRank: 1536, KVRank: 512, Nope: 128, Rope: 64, V: 128},
	},
	{
		Name: "kimi-k2", Layers: 61, Hidden: 7168, Heads: 64, FFN: 18432, Vocab: 163840, Gated: true,
		Experts: Experts{Count: 384, TopK: 8, FFN: 2048, Shared: 2048, Dense: 1, Bias: true},
		Latent:  Latent{QRank: 1536, KVRank: 512, Nope: 128, Rope: 64, V: 128},
	},
}

func tied(m Model) Model { m.Tied = true; return m }

// ModelPresets returns the names of the presets.
func ModelPresets() []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	return names
}

// ModelPreset returns the model of a name: case, blanks and separators do not matter, and llama-3.1 is
// llama-3.
func ModelPreset(name string) (Model, error) {
	key := modelKey(name)
	for _, m := range models {
		if modelKey(m.Name) == key {
			return m, nil
		}
	}
	near := slices.Clone(models)
	slices.SortStableFunc(near, func(a, b Model) int {
		return unlike(key, modelKey(a.Name)) - unlike(key,
			modelKey(b.Name))
	})
	return Model{}, fmt.Errorf("model: unknown name %q: near it are %s, %s, %s; or give a Hugging Face "+
		"config.json", name, near[0].Name, near[1].Name, near[2].Name)
}

// modelKey normalizes a name for comparison, without its owner on the Hub and its tuning.
func modelKey(s string) string {
	s = strings.ToLower(s)
	s = s[strings.LastIndex(s, "/")+1:]
	s = strings.TrimPrefix(s, "meta-")
	for _, end := range []string{"-v0.1", "-hf", "-instruct", "-chat", "-base"} {
		s = strings.TrimSuffix(s, end)
	}
	for _, alias := range [][2]string{{"llama-3.1", "llama-3"}, {"llama3.1", "llama3"},
		{"deepseek-v3.1", "deepseek-v3"}, {"deepseek-r1", "deepseek-v3"}, {"gpt-3", "gpt3"}, {"gpt-2", "gpt2"}} {
		s = strings.Replace(s, alias[0], alias[1], 1)
	}
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "", "/", "").Replace(s)
}

// unlike counts the letter pairs that only one of two names has.
func unlike(a, b string) int {
	pairs := map[string]int{}
	for i := range max(0, len(a)-1) {
		pairs[a[i:i+2]]++
	}
	common := 0
	for i := range max(0, len(b)-1) {
		if pairs[b[i:i+2]] > 0 {
			pairs[b[i:i+2]]--
			common++
		}
	}
	return len(a) + len(b) - 2*common
}
