package decode_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/decode"
	"github.com/galley-ml/galley/internal/interpreter"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/internal/paged/pagedtest"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// wide returns a model whose matrices are whole groups of 32.
func wide(t *testing.T) models.Model {
	t.Helper()
	config, err := models.ParseConfig([]byte(`{"model_type": "llama", "vocab_size": 37, "hidden_size": 64,
		"intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
		"initializer_range": 0.2}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(config, nn.Config{Scope: session(t), Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// rounded returns a matrix of the layers as integers; zeros gives groups zero points.
func rounded(p *nn.Param, bits int, zeros bool) (quant.Matrix, bool, error) {
	a, err := cpu.Read(p.Value)
	if err != nil || !strings.Contains(p.Name, "proj") {
		return quant.Matrix{}, false, err
	}
	q := quant.Round(quant.Config{Bits: bits, Group: 32}, array.Data[float32](a), a.Shape()[0], a.Shape()[1])
	if zeros {
		q.Zeros = make([]byte, len(q.Scales))
		for i := range q.Zeros {
			q.Zeros[i] = byte(6 + i%4)
		}
	}
	return q, true, nil
}

// TestWeights: weights of every format, rounded when they are read or stored as integers, with zero points
// too, give what the host computes of the floats that they mean.
func TestWeights(t *testing.T) {
	m := wide(t)
	seq := paged.Sequence{Pages: []int32{3, 1}, Tokens: random(rand.New(rand.NewPCG(1, 1)), 20), Want: 1}
	for _, c := range []struct {
		name      string
		weights   packed.Format
		bits      int
		stored    bool
		tolerance float64
	}{
		{"f32", packed.Auto, 0, false, 1e-3}, {"bf16", packed.BF16, 0, false, 0.1},
		{"int8", packed.Int8, 8, false, 1e-3}, {"int4", packed.Int4, 4, false, 1e-3},
		{"stored", packed.Auto, 4, true, 1e-3},
	} {
		t.Run(c.name, func(t *testing.T) {
			meant := func(p *nn.Param) (array.Array, error) {
				if c.bits > 0 {
					if q, ok, err := rounded(p, c.bits, c.stored); ok || err != nil {
						return array.FromSlice(q.Floats(), q.Out, q.In), err
					}
				}
				return cpu.Read(p.Value)
			}
			config := decode.Config{Backend: interpreter.New(1), Threads: 1, Weights: c.weights}
			if c.stored {
				config.Grouped = func(p *nn.Param) (quant.Matrix, bool, error) { return rounded(p, c.bits, true) }
			}
			pairOf(t, m, paged.Config{Threads: 1, Read: meant}, config).run(t, c.tolerance, seq)
		})
	}
}

// TestRefusals: what a backend cannot have is refused by name.
func TestRefusals(t *testing.T) {
	moe := pagedtest.Model(t, "mixtral", nn.Config{Scope: session(t), Seed: 7})
	for want, c := range map[string]decode.Config{
		"keys and values as int8":  {KV: paged.KVInt8},
		"cannot be int8 on a back": {Weights: packed.Int8},
	} {
		c.Backend = interpreter.New(1)
		if _, err := decode.New(moe, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
