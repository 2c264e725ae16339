package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// GGUFConfig configures how a model is written for llama.cpp.
type GGUFConfig struct {
	// Weights is the format of the layers' matrices: int8 is Q8_0, int4 is Q4_0, q4_k is Q4_K, or Q8_0 for rows
	// that are not whole blocks of it; f16, bf16 and f32 are themselves. The last three apply to embeddings and
	// heads as well, which quantization leaves unchanged.
	Weights string
	// Read returns a parameter's values; nil reads eager tensors.
	Read func(p *nn.Param) (array.Array, error)
	// Round, if not nil, rounds matrices as QuantizeConfig.Round does.
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
	list := ropeTensor(config)
	for _, p := range m.Params() {
		a, err := c.Read(p)
		if err != nil {
			return nil, err
		}
		if c.Round != nil && !calibrated(config, p.Name) {
			return nil, fmt.Errorf("parameter %q: %s is not calibrated: want --method rtn", p.Name, config.Family)
		}
		names := ggufNames(config.Family, p.Name)
		if names == nil {
			return nil, fmt.Errorf("parameter %q has no name in llama.cpp's files", p.Name)
		}
		linear := transposes(config, p.Name) || slices.Contains(linears, p)
		for i, one := range inFile(config, p.Name, a) {
			t, err := c.stored(one, p, linear)
			if err != nil {
				return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
			}
			t.Name = names[i]
			list = append(list, t)
		}
	}
	return list, nil
}

// stored returns a parameter in the format in which it is written: vectors are float32, and so is everything
// without a requested format.
func (c GGUFConfig) stored(a array.Array, p *nn.Param, linear bool) (gguf.Stored, error) {
	t := gguf.Stored{Shape: a.Shape()}
	x := make([]float32, a.Len())
	if !packed.Floats(x, a, 0) {
		return t, fmt.Errorf("got %v, want floats of 16 or 32 bits", a.DType())
	}
	bits := map[string]int{"int8": 8, "int4": 4, "q4_k": 8}[c.Weights]
	last := t.Shape[len(t.Shape)-1]
	switch {
	case len(t.Shape) == 1 || isRouter(p.Name): // llama.cpp has routers in float32
		if t.Kind, t.Data = gguf.F32, array.FromSlice(x, len(x)).Bytes(); len(t.Shape) == 2 && t.Shape[0] == 1 {
			t.Shape = t.Shape[1:] // the gate of a shared expert is a vector there
		}
	case linear && c.Weights == "q4_k" && wholeQ4K(last):
		t.Kind, t.Data = gguf.Q4_K, gguf.EncodeQ4K(x)
	case linear && bits > 0 && last%32 == 0:
		m, err := c.rounded(p, x, t.Shape, bits)
		if err != nil {
			return t, err
		}
		t.Kind, t.Data = gguf.Blocks(m)
	case linear && bits > 0 || c.Weights == "f16":
		t.Kind, t.Data = gguf.F16, halves(x, kernel.F32ToF16)
	case c.Weights == "f32":
		t.Kind, t.Data = gguf.F32, array.FromSlice(x, len(x)).Bytes()
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
func WholeQ4K(p *nn.Param) bool { return wholeQ4K(p.Type.Shape[len(p.Type.Shape)-1]) }

func wholeQ4K(columns int) bool {
	_, ok := gguf.Q4_K.Bytes(columns)
	return ok
}

// isRouter reports whether a parameter chooses experts, or says how much of a shared one there is.
func isRouter(name string) bool {
	return strings.HasSuffix(name, ".mlp.gate.weight") ||
		strings.HasSuffix(name, ".shared_expert_gate.weight") || strings.HasSuffix(name, ".e_score_correction_bias")
}

// rounded returns a quantized matrix as llama.cpp expects it: with 4 bits, the scale maps the element of
// largest magnitude to the end of the signed range. The matrices of experts are stacked.
func (c GGUFConfig) rounded(p *nn.Param, x []float32, shape array.Shape, bits int) (quant.Matrix, error) {
	config := quant.Config{Bits: bits, Group: 32, Signed: bits == 4, Scale: quant.HalfScale}
	out, in := shape[len(shape)-2], shape[len(shape)-1]
	var all []quant.Matrix
	for e := range len(x) / (out * in) {
		w := x[e*out*in : (e+1)*out*in]
		if c.Round == nil {
			all = append(all, quant.Round(config, w, out, in))
			continue
		}
		m, err := c.Round(p, e, w, out, in, config)
		if err != nil {
			return m, err
		}
		all = append(all, m)
	}
	return quant.Stacked(all)
}

func halves(x []float32, narrow func(float32) uint16) []byte {
	b := make([]byte, 2*len(x))
	for i, v := range x {
		h := narrow(v)
		b[2*i], b[2*i+1] = byte(h), byte(h>>8)
	}
	return b
}

// ggufTypes maps the format of most matrices to llama.cpp's file types.
var ggufTypes = map[string]uint32{"f32": 0, "f16": 1, "int4": 2, "int8": 7, "q4_k": 14, "bf16": 32}

func ggufMeta(c Config, g GGUFConfig) ([]gguf.Pair, error) {
	f, err := ggufArch(c)
	if err != nil {
		return nil, err
	}
	u := func(key string, n int) gguf.Pair { return gguf.Pair{Key: f.arch + "." + key, Value: uint32(n)} }
	meta := []gguf.Pair{
		{Key: "general.architecture", Value: f.arch},
		{Key: "general.name", Value: "galley"}, // a family's name would mean tokens of its tokenizer
		{Key: "general.quantization_version", Value: uint32(2)},
		{Key: "general.file_type", Value: ggufTypes[g.Weights]},
		u("context_length", c.Positions), u("embedding_length", c.Hidden), u("block_count", c.Layers),
		u("feed_forward_length", c.Intermediate), u("attention.head_count", c.Heads), u("vocab_size", c.Vocab),
		{Key: f.arch + f.epsilon(), Value: float32(c.NormEps)},
	}
	more := headMeta(c, f)
	if f.experts != "" {
		more["expert_count"], more["expert_used_count"] = uint32(c.Experts), uint32(c.ExpertsPerToken)
	}
	if f.meta != nil {
		maps.Copy(more, f.meta(c))
	}
	for _, key := range sortedKeys(more) {
		meta = append(meta, gguf.Pair{Key: f.arch + "." + key, Value: more[key]})
	}
	tokens, err := ggufTokens(c, g.Tokenizer)
	return append(meta, tokens...), err
}

// headMeta returns the sizes of heads and their rotary positions.
func headMeta(c Config, f ggufFamily) map[string]any {
	meta := map[string]any{"attention.head_count_kv": uint32(c.KVHeads),
		"attention.key_length": uint32(c.HeadDim), "attention.value_length": uint32(c.HeadDim)}
	if f.latent {
		meta = latentMeta(c)
	}
	if c.Rope.Type != "" {
		maps.Copy(meta, ropeMeta(c))
		if !f.latent {
			meta["rope.dimension_count"] = uint32(c.Rope.turned(c.HeadDim))
		}
	}
	return meta
}

// ggufTokens returns the tokenizer: byte-level BPE in llama.cpp's form, and tokenizer.json unchanged for
// programs that read it.
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
