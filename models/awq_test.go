package models

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// TestAWQ: a model some of whose inputs are much larger than others loses less by AWQ than by rounding to the
// nearest, and next to nothing in 8 bits: scales and what they are divided out of cancel.
func TestAWQ(t *testing.T) {
	for family, more := range map[string]string{"llama": "", "gemma": `, "head_dim": 16`} {
		config, err := ParseConfig([]byte(`{"model_type": "` + family + `", "vocab_size": 50, "hidden_size": 64,
			"intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
			"initializer_range": 0.1` + more + `}`))
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t)
		m, err := New(config, nn.Config{Scope: s, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Params() {
			if !strings.HasSuffix(p.Name, "layernorm.weight") {
				continue
			}
			a, err := cpu.Read(p.Value)
			if err != nil {
				t.Fatal(err)
			}
			for i := 3; i < a.Len(); i += 16 {
				array.Data[float32](a)[i] += 15
			}
			p.Value = s.Tensor(a)
		}
		squares := func(p *nn.Param, _ int) []float64 {
			n := p.Type.Shape[1]
			out := make([]float64, n)
			for i := range out {
				if out[i] = 1; i%16 == 3 && n == 64 {
					out[i] = 225
				}
			}
			return out
		}
		save := func(bits int, awq bool) Model {
			t.Helper()
			c := QuantizeConfig{Bits: bits, Group: 32}
			if awq {
				a, err := NewAWQ(m, readEager, squares, quant.Config{Bits: bits, Group: 32})
				if err != nil {
					t.Fatal(err)
				}
				c.Read, c.Round = a.Read, a.Round
			}
			dir := filepath.Join(t.TempDir(), "q")
			if err := SaveQuantized(dir, m, c); err != nil {
				t.Fatal(err)
			}
			q, err := Load(dir, nn.Config{Scope: s})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		ids := s.Tensor(array.FromSlice([]int32{1, 7, 3, 40, 22, 9, 13, 2}, 1, 8))
		far := func(q Model) (sum float64) {
			t.Helper()
			a, err := cpu.Read(q.Forward(ids))
			if err != nil {
				t.Fatal(err)
			}
			b, err := cpu.Read(m.Forward(ids))
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.Len() {
				sum += math.Pow(a.At(i)-b.At(i), 2)
			}
			return math.Sqrt(sum / float64(a.Len()))
		}
		rtn, awq, fine := far(save(4, false)), far(save(4, true)), far(save(8, true))
		t.Logf("%s: off by %.4f to the nearest, %.4f by AWQ, %.5f in 8 bits", family, rtn, awq, fine)
		if awq >= rtn || fine > awq/4 {
			t.Errorf("%s: logits are off by %v by AWQ, %v to the nearest, %v in 8 bits", family, awq, rtn, fine)
		}
	}
}
