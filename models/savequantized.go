package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
)

// QuantizeConfig configures how a model's matrices are quantized.
type QuantizeConfig struct {
	// Bits is 8 or 4; Group is the number of adjacent elements of a row that share a scale: 32, 64 or 128.
	Bits, Group int
	// Read returns a parameter's values; nil reads eager tensors.
	Read func(p *nn.Param) (array.Array, error)
	// Tokenizer, if set, is the text of the tokenizer.json to write beside the model.
	Tokenizer []byte
	// Round, if not nil, rounds a matrix [out, in] of a parameter, or of one of its experts, instead of rounding
	// to the nearest.
	Round func(p *nn.Param, expert int, w []float32, out, in int, c quant.Config) (quant.Matrix, error)
}

// SaveQuantized writes a model as a Hugging Face directory with quantized layers, packed as in
// compressed-tensors. Everything else is unchanged.
func SaveQuantized(dir string, m Model, c QuantizeConfig) error {
	q := quantizer{QuantizeConfig: c, config: m.Config()}
	if q.Read == nil {
		q.Read = readEager
	}
	tensors, ignored, err := q.tensors(m)
	if err != nil {
		return fmt.Errorf("models: quantize %s: %w", dir, err)
	}
	text, err := q.written(ignored)
	if err != nil {
		return fmt.Errorf("models: quantize %s: %w", dir, err)
	}
	files := map[string][]byte{configName: text}
	if c.Tokenizer != nil {
		files[tokenizerName] = c.Tokenizer
	}
	err = replaceDir(dir, func(fresh string) error {
		for name, text := range files {
			if err := writeFile(filepath.Join(fresh, name), text); err != nil {
				return err
			}
		}
		return safetensors.WriteDir(fresh, tensors, defaultShard, map[string]string{"format": "pt"})
	})
	if err != nil {
		return fmt.Errorf("models: quantize: %w", err)
	}
	return nil
}

func readEager(p *nn.Param) (array.Array, error) { return cpu.Read(p.Value) }

type quantizer struct {
	QuantizeConfig
	config Config
}

// tensors returns all tensors to write, and the modules that are not quantized.
func (q *quantizer) tensors(m Model) (all []safetensors.Named, ignored []string, err error) {
	parts, err := PartsOf(m)
	if err != nil {
		return nil, nil, err
	}
	linears, err := Linears(m)
	if err != nil {
		return nil, nil, err
	}
	if len(linears) == 0 {
		return nil, nil, fmt.Errorf("%s has no matrices stored [out, in]: none can be packed", q.config.Family)
	}
	for _, p := range m.Params() {
		a, err := q.Read(p)
		if err != nil {
			return nil, nil, err
		}
		whole := stored(q.config, p.Name, a)
		if !slices.Contains(linears, p) {
			all, q.config.DType = append(all, whole...), a.DType()
			continue
		}
		for i, one := range whole {
			packed, err := q.pack(one, p, i*expertsOf(p)/len(whole))
			if err != nil {
				return nil, nil, err
			}
			all = append(all, packed...)
		}
	}
	return all, unchanged(m, parts), nil
}

// expertsOf returns the number of experts whose matrices a parameter holds; 1 for a plain one.
func expertsOf(p *nn.Param) int {
	if len(p.Type.Shape) == 3 {
		return p.Type.Shape[0]
	}
	return 1
}

// pack quantizes one matrix, of a parameter's expert.
func (q *quantizer) pack(one safetensors.Named, p *nn.Param, expert int) ([]safetensors.Named, error) {
	out, in := one.Array.Shape()[0], one.Array.Shape()[1]
	if in%q.Group != 0 {
		return nil, fmt.Errorf("tensor %q: %d columns: want a multiple of the group of %d", one.Name, in, q.Group)
	}
	w := make([]float32, out*in)
	if !packed.Floats(w, one.Array, 0) {
		return nil, fmt.Errorf("tensor %q: got %v, want floats of 16 or 32 bits", one.Name, one.Array.DType())
	}
	c, dtype := quant.Config{Bits: q.Bits, Group: q.Group, Scale: quant.HalfScale}, array.F16
	if one.Array.DType() == array.BF16 {
		c.Scale, dtype = quant.BF16Scale, array.BF16
	}
	m, err := q.round(p, expert, w, out, in, c)
	if err != nil {
		return nil, err
	}
	tensors, err := m.Store(one.Name, dtype)
	if err != nil {
		return nil, err
	}
	var named []safetensors.Named
	for _, t := range tensors {
		named = append(named, safetensors.Named{Name: t.Name, Array: t.Array})
	}
	return named, nil
}

func (q *quantizer) round(p *nn.Param, expert int, w []float32, out, in int,
	c quant.Config) (quant.Matrix, error) {
	if q.Round == nil {
		return quant.Round(c, w, out, in), nil
	}
	return q.Round(p, expert, w, out, in, c)
}

// written returns config.json.
func (q *quantizer) written(ignored []string) ([]byte, error) {
	settings, err := json.Marshal(quant.Config{Bits: q.Bits, Group: q.Group}.Settings(ignored))
	if err != nil {
		return nil, err
	}
	q.config.Other = maps.Clone(q.config.Other)
	if q.config.Other == nil {
		q.config.Other = map[string]json.RawMessage{}
	}
	q.config.Other["quantization_config"] = settings
	return indented(q.config)
}
