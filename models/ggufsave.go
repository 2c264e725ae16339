package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// GGUFConfig says how a model is written for llama.cpp.
type GGUFConfig struct {
	// Weights is what the matrices of layers are written as: int8 is Q8_0, int4 is Q4_0, q4_k is Q4_K, and Q8_0
	// where rows are no whole blocks of that; f16 and bf16 are themselves. The last two are for tables and heads
	// too, which integers leave as they are.
	Weights string
	// Read gives a parameter's values; nil reads eager tensors.
	Read func(p *nn.Param) (array.Array, error)
	// Round, where not nil, rounds matrices as QuantizeConfig.Round does.
	Round func(p *nn.Param, expert int, w []float32, out, in int, c quant.Config) (quant.Matrix, error)
	// Tokenizer, if set, is the text of tokenizer.json.
	Tokenizer []byte
}

// SaveGGUF writes a model as one file in llama.cpp's format.
func SaveGGUF(path string, m Model, c GGUFConfig) error {
	if c.Read == nil {
		c.Read = readEager
	}
	meta, err := ggufMeta(m.Config(), c)
	var tensors []gguf.Stored
	if err == nil {
		tensors, err = c.tensors(m)
	}
	if err != nil {
		return fmt.Errorf("models: save %s: %w", path, err)
	}
	if err := gguf.Write(path, meta, tensors); err != nil {
		return fmt.Errorf("models: save: %w", err)
	}
	return nil
}

func (c GGUFConfig) tensors(m Model) ([]gguf.Stored, error) {
	linears, err := Linears(m)
	if err != nil {
		return nil, err
	}
	config := m.Config()
	var list []gguf.Stored
	for _, p := range m.Params() {
		a, err := c.Read(p)
		if err != nil {
			return nil, err
		}
		if turns(config, p.Name) {
			a = turned(a, config.HeadDim, false)
		}
		t, err := c.stored(a, p, slices.Contains(linears, p))
		if err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		if t.Name = ggufName(config.Family, p.Name); t.Name == "" {
			return nil, fmt.Errorf("parameter %q has no name in llama.cpp's files", p.Name)
		}
		list = append(list, t)
	}
	return list, nil
}

// stored returns a parameter as it is written: vectors are float32, and so is what nothing is said of.
func (c GGUFConfig) stored(a array.Array, p *nn.Param, linear bool) (gguf.Stored, error) {
	t := gguf.Stored{Shape: a.Shape()}
	x := make([]float32, a.Len())
	if !packed.Floats(x, a, 0) {
		return t, fmt.Errorf("got %v, want floats of 16 or 32 bits", a.DType())
	}
	bits := map[string]int{"int8": 8, "int4": 4, "q4_k": 8}[c.Weights]
	switch {
	case len(t.Shape) == 1:
		t.Kind, t.Data = gguf.F32, array.FromSlice(x, len(x)).Bytes()
	case linear && c.Weights == "q4_k" && WholeQ4K(p):
		t.Kind, t.Data = gguf.Q4_K, gguf.EncodeQ4K(x)
	case linear && bits > 0 && t.Shape[1]%32 == 0:
		m, err := c.rounded(p, x, t.Shape[0], t.Shape[1], bits)
		if err != nil {
			return t, err
		}
		t.Kind, t.Data = gguf.Blocks(m)
	case linear && bits > 0 || c.Weights == "f16":
		t.Kind, t.Data = gguf.F16, halves(x, kernel.F32ToF16)
	case c.Weights == "bf16" || a.DType() == array.BF16:
		t.Kind, t.Data = gguf.BF16, halves(x, kernel.F32ToBF16)
	case a.DType() == array.F16:
		t.Kind, t.Data = gguf.F16, a.Bytes()
	default:
		t.Kind, t.Data = gguf.F32, array.FromSlice(x, len(x)).Bytes()
	}
	return t, nil
}

// WholeQ4K reports whether the rows of a matrix are whole blocks of Q4_K.
func WholeQ4K(p *nn.Param) bool {
	shape := p.Type.Shape
	_, ok := gguf.Q4_K.Bytes(shape[len(shape)-1])
	return ok
}

// rounded returns a matrix as integers, as llama.cpp has them: the largest of 4 bits has the end of the
// range.
func (c GGUFConfig) rounded(p *nn.Param, x []float32, out, in, bits int) (quant.Matrix, error) {
	config := quant.Config{Bits: bits, Group: 32, Signed: bits == 4, Scale: quant.HalfScale}
	if c.Round == nil {
		return quant.Round(config, x, out, in), nil
	}
	return c.Round(p, 0, x, out, in, config)
}

func halves(x []float32, narrow func(float32) uint16) []byte {
	b := make([]byte, 2*len(x))
	for i, v := range x {
		h := narrow(v)
		b[2*i], b[2*i+1] = byte(h), byte(h>>8)
	}
	return b
}

// ggufArch returns the architecture of a configuration; an error says what its files cannot hold.
func ggufArch(c Config) (string, error) {
	arch, ok := map[string]string{"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
		"olmo2": "olmo2", "granite": "granite"}[c.Family]
	switch {
	case !ok:
		return "", fmt.Errorf("%s is not written for llama.cpp: want one of granite, llama, mistral, olmo2, "+
			"qwen2, qwen3", c.Family)
	case c.Family == "olmo2" && c.Tied:
		return "", fmt.Errorf("olmo2 whose head is the table of tokens is not read by llama.cpp: " +
			"want a head of its own")
	case (c.Family == "olmo2" || c.Family == "granite") && c.AttentionBias:
		return "", fmt.Errorf("biases of %s's attention are not written for llama.cpp", c.Family)
	case c.Rope.Type != "default" || c.Rope.part() != 1 || c.Rope.Interleaved:
		return "", fmt.Errorf("positions of type %q are not written for llama.cpp: want default", c.Rope.Type)
	case c.Window > 0 || c.MLPBias || c.Activation != "silu":
		return "", fmt.Errorf(
			"a window, biases of MLPs and activations other than silu are not written for llama.cpp",
		)
	}
	return arch, nil
}

// ggufTypes is llama.cpp's numbers of files by what most matrices are.
var ggufTypes = map[string]uint32{"f16": 1, "int4": 2, "int8": 7, "q4_k": 14, "bf16": 32}

func ggufMeta(c Config, g GGUFConfig) ([]gguf.Pair, error) {
	arch, err := ggufArch(c)
	if err != nil {
		return nil, err
	}
	u := func(key string, n int) gguf.Pair { return gguf.Pair{Key: arch + "." + key, Value: uint32(n)} }
	meta := []gguf.Pair{
		{Key: "general.architecture", Value: arch}, {Key: "general.name", Value: "galley " + c.Family},
		{Key: "general.quantization_version", Value: uint32(2)},
		{Key: "general.file_type", Value: ggufTypes[g.Weights]},
		u("context_length", c.Positions), u("embedding_length", c.Hidden), u("block_count", c.Layers),
		u("feed_forward_length", c.Intermediate), u("attention.head_count", c.Heads),
		u("attention.head_count_kv", c.KVHeads), u("attention.key_length", c.HeadDim),
		u("attention.value_length", c.HeadDim), u("rope.dimension_count", c.HeadDim), u("vocab_size", c.Vocab),
		{Key: arch + ".attention.layer_norm_rms_epsilon", Value: float32(c.NormEps)},
		{Key: arch + ".rope.freq_base", Value: float32(c.Rope.Theta)},
	}
	if c.Family == "granite" {
		by := c.Multipliers
		for _, s := range []struct {
			key string
			by  float64
		}{{"attention.scale", by.Attention}, {"embedding_scale", by.Embedding}, {"residual_scale", by.Residual},
			{"logit_scale", 1 / by.Logits}} {
			meta = append(meta, gguf.Pair{Key: arch + "." + s.key, Value: float32(s.by)})
		}
	}
	tokens, err := ggufTokens(c, g.Tokenizer)
	return append(meta, tokens...), err
}

// ggufTokens returns the tokenizer: byte-level BPE as llama.cpp has it, and tokenizer.json as it is for who
// reads that.
func ggufTokens(c Config, text []byte) ([]gguf.Pair, error) {
	var meta []gguf.Pair
	t := bytesAsBPE(c.Vocab)
	if text != nil {
		var err error
		if t, err = parseBPE(text, c.Vocab); err != nil {
			return nil, fmt.Errorf("tokenizer.json: %w", err)
		}
		meta = append(meta, gguf.Pair{Key: ggufTokenizer, Value: string(text)})
	}
	if t == nil {
		return append(meta, gguf.Pair{Key: "tokenizer.ggml.model", Value: "none"}), nil
	}
	meta = append(
		meta,
		gguf.Pair{Key: "tokenizer.ggml.model", Value: "gpt2"},
		gguf.Pair{
			Key:   "tokenizer.ggml.pre",
			Value: t.pre,
		},
		gguf.Pair{Key: "tokenizer.ggml.tokens", Value: t.tokens},
		gguf.Pair{
			Key:   "tokenizer.ggml.token_type",
			Value: t.kinds,
		},
		gguf.Pair{Key: "tokenizer.ggml.merges", Value: t.merges},
		gguf.Pair{Key: "tokenizer.ggml.add_bos_token", Value: false},
	)
	for key, name := range map[string]string{"eos_token_id": "eos", "bos_token_id": "bos"} {
		var id uint32
		if json.Unmarshal(c.Other[key], &id) == nil && int(id) < c.Vocab {
			meta = append(meta, gguf.Pair{Key: "tokenizer.ggml." + name + "_token_id", Value: id})
		}
	}
	slices.SortStableFunc(meta, func(a, b gguf.Pair) int { return strings.Compare(a.Key, b.Key) })
	return meta, nil
}
