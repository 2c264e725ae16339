package models

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// Config is the shape of a model, in one form for every family. The zero value of a field that config.json
// may leave out means the family's default.
type Config struct {
	// Family is the model_type, one of Families.
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
	// Rope is how positions turn queries and keys; GPT-2 has none. RopeLocal, where it has a type, takes its
	// place in layers with a window, as in Gemma 3.
	Rope, RopeLocal Rope
	// QueryScalar is what the root of divides the scores; 0 means the size of a head.
	QueryScalar float64
	// ScoreCap and LogitCap bound scores and logits x as cap·tanh(x/cap); 0 is not at all.
	ScoreCap, LogitCap float64
	// Window is how many positions, its own included, a token sees in the layers that WindowLayers marks; 0 is
	// all.
	Window       int
	WindowLayers []bool

	// Experts and ExpertsPerToken are for families with a mixture of experts, which Mixture says more of.
	Experts, ExpertsPerToken int
	Mixture                  Mixture
	// Latent is the sizes of DeepSeek's attention.
	Latent Latent
	// Recurrence is the sizes of Mamba's and RWKV-7's layers.
	Recurrence Recurrence
	// Image is the sizes of what a vision model sees.
	Image Image

	// TokenWidth is how long the vectors of tokens are in electra; 0 means Hidden.
	TokenWidth int
	// SinePositions is that the vectors of positions begin as waves, in distilbert.
	SinePositions bool

	// Task is what the model's head does; the zero value is Predict.
	Task Task
	// Labels is how many classes there are where Task is Classify or ClassifyTokens, and 2 where it is Answer;
	// TokenTypes is how many kinds of tokens BERT tells apart.
	Labels, TokenTypes int

	// UnscaledAttention leaves out the division by the root of HeadDim, ScaleByLayer divides by the layer's
	// number: GPT-2's scale_attn_weights and scale_attn_by_inverse_layer_idx.
	UnscaledAttention, ScaleByLayer bool

	// SequentialBlocks puts the MLP behind the attention in gpt_neox, falcon and stablelm, whose blocks are
	// parallel otherwise.
	SequentialBlocks bool
	// QKV is how queries, keys and values share a matrix in falcon.
	QKV QKVLayout
	// OneNorm is that attention and the MLP of a parallel block of falcon share a norm.
	OneNorm bool
	// QKVBound, where it is not 0, bounds queries, keys and values on both sides, in olmo.
	QKVBound float64
	// QKLayerNorm is that queries and keys have a LayerNorm for each head, in cohere, phi and stablelm;
	// QKRMSNorm is that they have an RMSNorm for each, in glm4_moe.
	QKLayerNorm, QKRMSNorm bool
	// Unturned marks the layers in which positions turn nothing, in smollm3 and cohere2; nil is none.
	Unturned []bool
	// Multipliers is granite's, and cohere's of the logits.
	Multipliers Multipliers

	// Ahead is how many layers behind the last predict further tokens while the model trains, in deepseek_v3;
	// see LossConfig.Ahead and LoadAhead. A model that is read has none unless it is asked for, as in
	// transformers.
	Ahead int
	// Dropout is what is cleared while a trainer trains the model; otherwise nothing is.
	Dropout Dropout
	// Other is the keys of config.json that do not change what the model computes, kept for Save.
	Other map[string]json.RawMessage
}

// Mixture is how a mixture of experts differs from Mixtral's.
type Mixture struct {
	// Width is an expert's inner size; 0 means Intermediate.
	Width int
	// Shared is how many experts of that size every token visits.
	Shared int
	// SharedWidth is the inner size of the MLP that every token visits in qwen2_moe.
	SharedWidth int
	// Dense marks the layers that have a plain MLP; nil is none.
	Dense []bool
	// Routing is how experts are chosen.
	Routing nn.Routing
}

// Latent is the sizes of multi-head latent attention.
type Latent struct {
	// QRank is the length of compressed queries; 0 is that they are not.
	QRank int
	// KVRank is the length of what keys and values are made from.
	KVRank int
	// Plain and Turned are the sizes of a head's two parts, of which the second turns by position; Value that of
	// values.
	Plain, Turned, Value int
}

// Image is the sizes of an image and of the patches that it is cut into, as height and width.
type Image struct {
	Size, Patch [2]int
	Channels    int
}

// patches returns how many there are.
func (i Image) patches() int {
	return i.Size[0] / max(1, i.Patch[0]) * (i.Size[1] / max(1, i.Patch[1]))
}

// QKVLayout is how one matrix holds queries, keys and values.
type QKVLayout uint8

// The layouts.
const (
	// QKVOneKey: all heads of queries, then the one of keys and the one of values.
	QKVOneKey QKVLayout = iota
	// QKVHeads: each head's query, key and value in turn.
	QKVHeads
	// QKVGroups: for each head of keys its queries, its key and its value.
	QKVGroups
)

// Task is what a model's head does.
type Task uint8

// The tasks.
const (
	// Predict gives a distribution over tokens for every position.
	Predict Task = iota
	// Classify gives one over labels for every sequence.
	Classify
	// ClassifyTokens gives one over labels for every token.
	ClassifyTokens
	// Answer gives two over the tokens of a sequence: where the answer to a question begins and where it ends.
	Answer
)

// Recurrence is the sizes of a state-space layer.
type Recurrence struct {
	// States is how many numbers of state an element has, Groups how many sets of heads share what writes and
	// reads them.
	States, Groups int
	// Kernel is how many positions, its own included, the short convolution sees.
	Kernel int
	// Chunk is how many positions are computed at once.
	Chunk int
	// MinStep and MaxStep bound the steps; MaxStep may be infinite.
	MinStep, MaxStep float64
	// Bias and ConvBias are those of the projections and of the convolution.
	Bias, ConvBias bool
	// StepRank is how many numbers the steps of Mamba's first version are made from.
	StepRank int
	// Ranks is the sizes of RWKV-7's low-rank layers.
	Ranks RWKVRanks
	// NormFirst is that a norm follows the tokens' vectors, Warp that training draws the largest logit of each
	// position towards 0, which no loss tells.
	NormFirst, Warp bool
}

// RWKVRanks is the inner sizes of the layers that choose decays, rates, values and gates in RWKV-7.
type RWKVRanks struct{ Decay, Rate, Value, Gate int }

// Dropout is probabilities: of elements of the embedded tokens, of what a block adds to the stream, of
// attention weights, of what a classifier sees.
type Dropout struct{ Embedding, Residual, Attention, Classifier float64 }

// WindowOf returns the window of a layer; 0 is none.
func (c Config) WindowOf(layer int) int {
	if layer < len(c.WindowLayers) && c.WindowLayers[layer] {
		return c.Window
	}
	return 0
}

// ropeOf returns how a layer turns queries and keys.
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

// WithLayers returns the same shape with so many layers: the first ones, repeated where there are not enough.
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

// Limit returns the longest sequence that the model can see: Positions where it learns a vector for each, as
// GPT-2 does, and 0 for no limit where positions turn queries and keys.
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

// StopTokens returns the eos_token_id of config.json, which may be one number, a list or absent.
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

// padToken returns the id whose vector looking up does not train, and whether there is one: the pad_token_id
// of config.json, counted from the end where it is negative, or the family's.
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

// The largest sizes that are still believable: beyond them a number is a mistake in the file, and products of
// sizes might not fit an int.
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

// ropePositions returns what Rope keeps of Positions: nothing where it does not depend on it.
func (c Config) ropePositions() int {
	if c.Rope.Type == "dynamic" || c.Rope.Type == "longrope" {
		return c.Positions
	}
	return 0
}

// validateParts checks what only some families have.
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

// validateMixture checks experts and how they are chosen.
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
