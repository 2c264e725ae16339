package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/nn"
)

// family holds what models of one model_type have in common beyond their configuration. Each has a file of
// names, for its config.json and its weights, and uses layers of its own or of another family.
type family struct {
	name         string
	architecture string
	// classifier is the architecture with a head for sequence classification, tagger that for token
	// classification, and answerer that for question answering; empty if there is none.
	classifier, tagger, answerer string
	// base is the prefix of all names except the head's; a checkpoint of the base model omits it.
	base string
	// embedding is the name of the embedding table, below base.
	embedding string
	keys      keys
	// Defaults of keys that config.json omits.
	eps, theta float64
	positions  int
	activation string
	tied       bool
	window     int
	// pad is the pad_token_id, whose embedding gets no gradient from lookups; noPad means that there is none,
	// and unpadded that the family treats padding like any token.
	pad int

	learnedPositions bool
	// countedPositions numbers only tokens that are not padding, starting after the padding's id.
	countedPositions bool
	// encoder marks families with bidirectional attention, which cannot generate; recurrent marks those that
	// process sequences in order. Neither supports zigzag order.
	encoder   bool
	recurrent bool
	// images marks families whose input is pixels instead of tokens.
	images  bool
	rotary  bool
	experts bool
	qkvBias bool
	qkNorm  bool

	// read takes the family's own keys from config.json, write writes them.
	read  func(r *reader, f *family, c *Config)
	write func(c Config, f *family, m map[string]any)
	// fill sets defaults that depend on other sizes, check returns an error for invalid combinations; both may
	// be nil.
	fill  func(f *family, c *Config)
	check func(c Config) error
	// headDim is the number of elements of a head that may have rotary positions; nil means all.
	headDim func(c Config) int
	build   func(f *family, c Config, in *nn.Init) (*decoder, error)
	// stored maps parameter names to those of checkpoints where they differ.
	stored storedNames
}

// Special values of family.pad.
const (
	noPad    = -1
	unpadded = -2
)

// architectureOf returns the architecture with the head of a task; empty if there is none.
func (f *family) architectureOf(t Task) string {
	return [...]string{f.architecture, f.classifier, f.tagger, f.answerer}[t]
}

// architectures returns all architectures of the family.
func (f *family) architectures() (names []string) {
	for _, t := range []Task{Predict, Classify, ClassifyTokens, Answer} {
		if name := f.architectureOf(t); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// turnedDim returns the size of the part of a head that may have rotary positions.
func (f *family) turnedDim(c Config) int {
	if f.headDim != nil {
		return f.headDim(c)
	}
	return c.HeadDim
}

// keys holds the names of sizes in a family's config.json.
type keys struct {
	hidden, intermediate, layers, heads, positions, eps, activation string
	experts, perToken                                               string
}

func llamaKeys() keys {
	return keys{
		hidden: "hidden_size", intermediate: "intermediate_size", layers: "num_hidden_layers",
		heads: "num_attention_heads", positions: "max_position_embeddings", eps: "rms_norm_eps",
		activation: "hidden_act",
		experts:    "num_local_experts", perToken: "num_experts_per_tok",
	}
}

// families returns all families, by name.
func families() []family {
	all := slices.Concat(
		[]family{gpt2Family(), gptjFamily(), gptNeoXFamily(), falconFamily(), bertFamily(), robertaFamily(),
			distilBERTFamily(),
			electraFamily(), mambaFamily(), mamba2Family(),
			rwkvFamily(), rwkv7Family(), vitFamily()},
		llamaFamilies(), qwenFamilies(), qwen2MoEFamilies(), gemmaFamilies(), ernieFamilies(), deepseekFamilies(),
		olmoFamilies(), olmo1Families(), phiFamilies(), phi1Families(), starcoderFamilies(), graniteFamilies(),
		cohereFamilies(), smollmFamilies(), glmFamilies(), stableLMFamilies(), gptOSSFamilies(),
	)
	slices.SortFunc(all, func(a, b family) int { return strings.Compare(a.name, b.name) })
	return all
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
		return nil, fmt.Errorf("model_type: got %q, want one of %s", name, listed(name, Families()))
	}
	return &all[i], nil
}

// listed formats the valid words for an error about a wrong one, with the nearest.
func listed(wrong string, words []string) string {
	return strings.Join(words, ", ") + "; the nearest is " + strict.Nearest(wrong, words)
}
