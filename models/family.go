package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/nn"
)

// family is what models of one model_type have in common beyond their configuration. Each has a file of
// names, which says how its config.json and its weights are called, and uses layers of its own or another
// family's.
type family struct {
	name         string
	architecture string
	// classifier is the architecture with a head that classifies sequences, tagger that with one for tokens, and
	// answerer that with one for answers; empty where there is none.
	classifier, tagger, answerer string
	// base is what the names of all but the head begin with; a checkpoint of the base model leaves it out.
	base string
	// embedding is the table of tokens, below base.
	embedding string
	keys      keys
	// What config.json means when it leaves a key out.
	eps, theta float64
	positions  int
	activation string
	tied       bool
	window     int
	// pad is the pad_token_id, whose vector is not trained by looking it up; noPad is none, and unpadded that
	// the family looks padding up like any token.
	pad int

	learnedPositions bool
	// countedPositions counts tokens other than padding, from behind the padding's id.
	countedPositions bool
	// encoder is a family that sees whole sequences and so continues none, recurrent one that goes along them in
	// order: neither has any use for sequences in zigzag order.
	encoder   bool
	recurrent bool
	// images is a family that sees pixels in place of tokens.
	images  bool
	rotary  bool
	experts bool
	qkvBias bool
	qkNorm  bool

	// read takes the family's own keys from config.json, write puts them back.
	read  func(r *reader, f *family, c *Config)
	write func(c Config, f *family, m map[string]any)
	// fill sets defaults that depend on other sizes, check says what is impossible; nil is nothing more.
	fill  func(f *family, c *Config)
	check func(c Config) error
	// headDim is how many elements of a head may turn by position; nil is all.
	headDim func(c Config) int
	build   func(f *family, c Config, in *nn.Init) (*decoder, error)
	// stored is how checkpoints call parameters that they do not call as the model does.
	stored storedNames
}

// Special values of family.pad.
const (
	noPad    = -1
	unpadded = -2
)

// architectureOf returns the architecture with the head of a task; empty where there is none.
func (f *family) architectureOf(t Task) string {
	return [...]string{f.architecture, f.classifier, f.tagger, f.answerer}[t]
}

// architectures returns all that the family has.
func (f *family) architectures() (names []string) {
	for _, t := range []Task{Predict, Classify, ClassifyTokens, Answer} {
		if name := f.architectureOf(t); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// turnedDim returns how long the part of a head is that may turn.
func (f *family) turnedDim(c Config) int {
	if f.headDim != nil {
		return f.headDim(c)
	}
	return c.HeadDim
}

// keys is what a family's config.json calls the sizes.
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

// families returns all that there are, by name.
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

// listed returns the words that a wrong one might have been, and the nearest.
func listed(wrong string, words []string) string {
	return strings.Join(words, ", ") + "; the nearest is " + strict.Nearest(wrong, words)
}
