package models

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// Config is the architecture of a model, in one form for all families. The zero value of a field that
// config.json may omit means the family's default.
type Config struct {
	// Family is the model_type, one of Families.
	Family string
	// DType is that of the checkpoint; Invalid if it is not specified.
	DType array.DType

	Vocab, Hidden, Intermediate, Layers, Heads int
	// KVHeads is the number of key and value heads: a divisor of Heads, which is also the default.
	KVHeads int
	// HeadDim is Hidden / Heads by default.
	HeadDim int
	// Positions is the longest sequence; only models with learned positions, such as GPT-2, cannot exceed it.
	Positions int
	// Activation is the name that config.json uses, such as silu or gelu_new.
	Activation string
	NormEps    float64
	// InitStd is the standard deviation of initial weights.
	InitStd float64
	// Tied shares the embedding table with the output head.
	Tied bool
	// AttentionBias and MLPBias add biases where the family makes them optional.
	AttentionBias, MLPBias bool
	// Rope configures rotary positions; GPT-2 has none. RopeLocal, if it has a type, replaces it in layers with
	// a sliding window, as in Gemma 3.
	Rope, RopeLocal Rope
	// QueryScalar is the number whose square root divides the scores; 0 means the size of a head.
	QueryScalar float64
	// ScoreCap and LogitCap limit scores and logits x to cap·tanh(x/cap); 0 means no limit.
	ScoreCap, LogitCap float64
	// Window is the sliding window of the layers that WindowLayers marks, the number of positions that a token
	// attends to, its own included; 0 means all.
	Window       int
	WindowLayers []bool

	// Experts and ExpertsPerToken are for families with a mixture of experts; Mixture holds its details.
	Experts, ExpertsPerToken int
	Mixture                  Mixture
	// Latent holds the sizes of DeepSeek's multi-head latent attention.
	Latent Latent
	// Recurrence holds the sizes of Mamba's and RWKV-7's layers.
	Recurrence Recurrence
	// Image holds the image and patch sizes of a vision model.
	Image Image

	// TokenWidth is the size of token embeddings in electra; 0 means Hidden.
	TokenWidth int
	// SinePositions initializes position embeddings as sines and cosines, in distilbert.
	SinePositions bool

	// Task is the task of the model's head; the zero value is Predict.
	Task Task
	// Labels is the number of classes if Task is Classify or ClassifyTokens, and 2 if it is Answer; TokenTypes
	// is the number of BERT's token types.
	Labels, TokenTypes int

	// UnscaledAttention omits the division by √HeadDim, ScaleByLayer divides by the layer's number: GPT-2's
	// scale_attn_weights and scale_attn_by_inverse_layer_idx.
	UnscaledAttention, ScaleByLayer bool

	// SequentialBlocks applies the MLP after the attention in gpt_neox, falcon and stablelm, whose blocks are
	// otherwise parallel.
	SequentialBlocks bool
	// QKV is the order of queries, keys and values in their fused matrix, in falcon.
	QKV QKVLayout
	// OneNorm shares one norm between attention and MLP in a parallel block of falcon.
	OneNorm bool
	// QKVBound, if not 0, clamps queries, keys and values to ±QKVBound, in olmo.
	QKVBound float64
	// QKLayerNorm adds a LayerNorm of queries and keys for each head, in cohere, phi and stablelm; QKRMSNorm
	// adds an RMSNorm for each, in glm4_moe.
	QKLayerNorm, QKRMSNorm bool
	// Unturned marks the layers without rotary positions, in smollm3 and cohere2; nil means none.
	Unturned []bool
	// Multipliers holds the factors of granite, and cohere's factor of the logits.
	Multipliers Multipliers

	// Ahead is the number of multi-token prediction layers after the last layer, used in training, in
	// deepseek_v3; see LossConfig.Ahead and LoadAhead. A loaded model has none unless requested, as in
	// transformers.
	Ahead int
	// Dropout holds the dropout rates, which apply in training only.
	Dropout Dropout
	// Other holds the keys of config.json that do not change what the model computes, kept for Save.
	Other map[string]json.RawMessage
}

// Mixture holds the differences of a mixture of experts from Mixtral's.
type Mixture struct {
	// Width is an expert's inner size; 0 means Intermediate.
	Width int
	// Shared is the number of shared experts of that size, which process every token.
	Shared int
	// SharedWidth is the inner size of qwen2_moe's shared MLP, which processes every token.
	SharedWidth int
	// Dense marks the layers with a plain MLP; nil means none.
	Dense []bool
	// Routing configures how experts are chosen.
	Routing nn.Routing
}

// Latent holds the sizes of multi-head latent attention.
type Latent struct {
	// QRank is the size of compressed queries; 0 if they are not compressed.
	QRank int
	// KVRank is the size of the latent vector from which keys and values are computed.
	KVRank int
	// Plain and Turned are the sizes of a head's two parts, the second of which has rotary positions; Value is
	// the size of values.
	Plain, Turned, Value int
}

// Image holds the sizes of an image and of its patches, as height and width.
type Image struct {
	Size, Patch [2]int
	Channels    int
}

// patches returns the number of patches.
func (i Image) patches() int {
	return i.Size[0] / max(1, i.Patch[0]) * (i.Size[1] / max(1, i.Patch[1]))
}

// QKVLayout is the order of queries, keys and values in one matrix.
type QKVLayout uint8

// Layouts.
const (
	// QKVOneKey: all query heads, then the key head and the value head.
	QKVOneKey QKVLayout = iota
	// QKVHeads: each head's query, key and value in turn.
	QKVHeads
	// QKVGroups: for each key head its queries, its key and its value.
	QKVGroups
)

// Task is the task of a model's head.
type Task uint8

// Tasks.
const (
	// Predict returns a distribution over tokens for every position.
	Predict Task = iota
	// Classify returns one over labels for every sequence.
	Classify
	// ClassifyTokens returns one over labels for every token.
	ClassifyTokens
	// Answer returns two over the tokens of a sequence: the start and the end of the answer to a question.
	Answer
)

// Recurrence holds the sizes of a state-space layer.
type Recurrence struct {
	// States is the size of the state per element, Groups the number of head groups that share the matrices
	// which write and read the state.
	States, Groups int
	// Kernel is the number of positions, its own included, of the short convolution.
	Kernel int
	// Chunk is the number of positions that are computed at once.
	Chunk int
	// MinStep and MaxStep clamp the time steps; MaxStep may be infinite.
	MinStep, MaxStep float64
	// Bias and ConvBias add biases to the projections and the convolution.
	Bias, ConvBias bool
	// StepRank is the rank of the time-step projection in the first version of Mamba.
	StepRank int
	// Ranks holds the sizes of RWKV-7's low-rank layers.
	Ranks RWKVRanks
	// NormFirst adds a norm after the token embeddings. Warp lets training pull the largest logit of each
	// position towards 0, by an extra gradient that the loss does not show.
	NormFirst, Warp bool
}

// RWKVRanks holds the ranks of the layers that compute decays, rates, values and gates in RWKV-7.
type RWKVRanks struct{ Decay, Rate, Value, Gate int }

// Dropout holds dropout rates: of embedded tokens, of what a block adds to the residual stream, of attention
// weights, and of a classifier's input.
type Dropout struct{ Embedding, Residual, Attention, Classifier float64 }

// WindowOf returns the sliding window of a layer; 0 means none.
func (c Config) WindowOf(layer int) int {
	if layer < len(c.WindowLayers) && c.WindowLayers[layer] {
		return c.Window
	}
	return 0
}

// ropeOf returns the rotary positions of a layer.
func (c Config) ropeOf(layer int) Rope {
	if c.RopeLocal.Type != "" && c.WindowOf(layer) > 0 {
		return c.RopeLocal
	}
	return c.Rope
}

// denseAt reports whether a layer has a plain MLP.
func (c Config) denseAt(layer int) bool {
	return c.Experts == 0 || layer < len(c.Mixture.Dense) && c.Mixture.Dense[layer]
}

// expertWidth returns an expert's inner size.
func (c Config) expertWidth() int {
	if c.Mixture.Width > 0 {
		return c.Mixture.Width
	}
	return c.Intermediate
}

// WithLayers returns the same architecture with n layers: the first ones, repeated if there are not enough.
func (c Config) WithLayers(n int) Config {
	c.WindowLayers, c.Mixture.Dense = cycled(c.WindowLayers, n), cycled(c.Mixture.Dense, n)
	c.Unturned = cycled(c.Unturned, n)
	c.Layers = n
	return c
}

func cycled(list []bool, n int) []bool {
	if len(list) == 0 || n < 0 {
		return list
	}
	out := make([]bool, n)
	for i := range out {
		out[i] = list[i%len(list)]
	}
	return out
}

// Limit returns the longest sequence that the model supports: Positions if it has learned positions, as GPT-2
// has, and 0, no limit, if it has rotary positions.
func (c Config) Limit() int {
	f, err := familyOf(c.Family)
	if err != nil || !f.learnedPositions {
		return 0
	}
	if pad, ok := c.padToken(); ok && f.countedPositions {
		return c.Positions - pad - 1
	}
	return c.Positions
}

// StopTokens returns the eos_token_id of config.json, which may be a number, a list or absent.
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

// padToken returns the id whose embedding gets no gradient from lookups, and whether there is one: the
// pad_token_id of config.json, counted from the end if negative, or the family's.
func (c Config) padToken() (id int, ok bool) {
	f, err := familyOf(c.Family)
	if err != nil || f.pad == unpadded {
		return 0, false
	}
	id = f.pad
	if text, given := c.Other["pad_token_id"]; given {
		if string(text) == "null" || json.Unmarshal(text, &id) != nil {
			return 0, false
		}
		if id < 0 {
			id += c.Vocab
		}
	}
	return id, id >= 0 && id < c.Vocab
}

// withDefaults fills in omitted fields.
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
	if f.rotary {
		fill(&c.Rope.Type, "default")
		fill(&c.Rope.Theta, f.theta)
		fill(&c.Rope.Positions, c.ropePositions())
	}
	if f.fill != nil {
		f.fill(f, &c)
	}
	return c, c.validate(f)
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Plausible upper bounds of sizes: a larger number is an error in the file, and products of sizes might not
// fit an int.
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

// ropePositions returns Rope's copy of Positions: 0 if it does not depend on it.
func (c Config) ropePositions() int {
	if c.Rope.Type == "dynamic" || c.Rope.Type == "longrope" {
		return c.Positions
	}
	return 0
}

// validateParts checks settings that only some families have.
func (c Config) validateParts(f *family) error {
	if f.rotary {
		for _, r := range []Rope{c.Rope, c.RopeLocal} {
			if r.Type == "" {
				continue
			}
			if err := r.validate(f.turnedDim(c)); err != nil {
				return err
			}
		}
	}
	if f.check != nil {
		if err := f.check(c); err != nil {
			return err
		}
	}
	if err := c.validateMixture(f); err != nil {
		return err
	}
	if !(c.QueryScalar >= 0) || !(c.ScoreCap >= 0) || !(c.LogitCap >= 0) {
		return fmt.Errorf("query_pre_attn_scalar %v, attn_logit_softcapping %v, final_logit_softcapping %v: "+
			"want no negative numbers",
			c.QueryScalar, c.ScoreCap, c.LogitCap)
	}
	if c.Window < 0 || c.Window > math.MaxInt32 || c.Window == 0 && len(c.WindowLayers) > 0 {
		return fmt.Errorf("sliding_window: got %d, want at least 1", c.Window)
	}
	if n := len(c.WindowLayers); n > 0 && n != c.Layers {
		return fmt.Errorf("layer_types: got %d, want one for each of %d layers", n, c.Layers)
	}
	for _, s := range []array.Shape{
		{c.Vocab, c.Hidden}, {max(c.Experts, 1), 2 * max(c.Intermediate, c.Mixture.Width), c.Hidden},
		{c.Heads, c.HeadDim, c.Hidden}, {c.Positions, c.Hidden},
	} {
		if !s.Valid() {
			return fmt.Errorf("a tensor of shape %v is too large", s)
		}
	}
	return nil
}

// validateMixture checks the experts and their routing.
func (c Config) validateMixture(f *family) error {
	m, r := c.Mixture, c.Mixture.Routing
	switch {
	case !f.experts:
		return nil
	case c.Experts < 1 || c.Experts > 1<<16 || c.ExpertsPerToken < 1 || c.ExpertsPerToken > c.Experts:
		return fmt.Errorf("%s %d, %s %d: want 1 or more, and no more per token than there are",
			f.keys.perToken, c.ExpertsPerToken, f.keys.experts, c.Experts)
	case m.Width < 0 || m.Width > maxSize || m.Shared < 0 || m.Shared > 1<<10:
		return fmt.Errorf("moe_intermediate_size %d, %d shared experts: want 0 or more", m.Width, m.Shared)
	case len(m.Dense) > 0 && len(m.Dense) != c.Layers:
		return fmt.Errorf("%d layers with or without experts: want %d", len(m.Dense), c.Layers)
	case r.Groups > 1 && (c.Experts%r.Groups != 0 || r.TopGroups < 1 || r.TopGroups > r.Groups ||
		c.Experts/r.Groups < r.GroupBest || c.ExpertsPerToken > c.Experts/r.Groups*r.TopGroups):
		return fmt.Errorf("%d experts in n_group %d, of which topk_group %d: want equal groups of %d or more, "+
			"with %d experts in those",
			c.Experts, r.Groups, r.TopGroups, r.GroupBest, c.ExpertsPerToken)
	}
	return nil
}
