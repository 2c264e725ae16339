package quant

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// Tensor is one of the tensors in which a weight is stored.
type Tensor struct {
	Name  string
	Array array.Array
}

// Store returns a weight without zero points as compressed-tensors has it, pack-quantized, its scales of a
// dtype.
func (m Matrix) Store(weight string, scale array.DType) ([]Tensor, error) {
	if m.Zeros != nil || m.Order != nil {
		return nil, fmt.Errorf("tensor %q: zero points and columns in another order are not written", weight)
	}
	if m.In%m.Group != 0 {
		return nil, fmt.Errorf("tensor %q: %d columns: want a multiple of the group of %d", weight, m.In, m.Group)
	}
	name, _ := stem(weight)
	per := 32 / m.Bits
	row := (m.In + per - 1) / per
	words := make([]int32, m.Out*row)
	for i, v := range m.Values {
		p := i % m.In
		words[i/m.In*row+p/per] |= int32(uint32(v) << (p % per * m.Bits))
	}
	scales := array.New(scale, m.Out, m.Groups())
	for i, s := range m.Scales {
		scales.Set(i, float64(s))
	}
	return []Tensor{
		{name + ".weight_packed", array.FromSlice(words, m.Out, row)}, {name + ".weight_scale", scales},
		{name + ".weight_shape", array.FromSlice([]int64{int64(m.Out), int64(m.In)}, 2)},
	}, nil
}

// Settings returns the quantization_config of a checkpoint of which all linear layers but some are stored so.
func (c Config) Settings(ignore []string) map[string]any {
	return map[string]any{
		"quant_method": CompressedTensors, "format": "pack-quantized", "quantization_status": "compressed",
		"ignore": ignore, "kv_cache_scheme": nil,
		"config_groups": map[string]any{"group_0": map[string]any{
			"targets": []string{"Linear"}, "input_activations": nil, "output_activations": nil,
			"weights": map[string]any{"num_bits": c.Bits, "type": "int", "symmetric": true, "strategy": "group",
				"group_size": c.Group, "dynamic": false, "actorder": nil},
		}},
	}
}
