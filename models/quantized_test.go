package models_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

func tinyModel(t *testing.T, family string, c nn.Config) models.Model {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	c.Scope, c.Seed = d.NewSession(), 5
	config, err := models.ParseConfig([]byte(fmt.Sprintf(`{"model_type": %q, "vocab_size": 37, "hidden_size": 64,
		"intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
		"head_dim": 16}`, family)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(config, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSaveQuantized: what is written is read back as the integers that floats were rounded to, by whoever
// wants integers, and as the floats that they mean, by whoever wants those; all else is as it was.
func TestSaveQuantized(t *testing.T) {
	for _, c := range []struct {
		family      string
		bits, group int
		dtype       array.DType
	}{{"llama", 4, 32, array.F32}, {"qwen3", 8, 64, array.BF16}, {"mixtral", 4, 64, array.F32}} {
		t.Run(c.family, func(t *testing.T) {
			m := tinyModel(t, c.family, nn.Config{DType: c.dtype})
			dir := filepath.Join(t.TempDir(), "out")
			if err := models.SaveQuantized(dir, m, models.QuantizeConfig{Bits: c.bits, Group: c.group}); err != nil {
				t.Fatal(err)
			}
			w, err := models.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			linears, err := models.Linears(w.Model)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range w.Model.Params() {
				was, err := cpu.Read(m.Params()[i].Value)
				if err != nil {
					t.Fatal(err)
				}
				sameParam(t, w, p, was, slices.Contains(linears, p), quant.Config{Bits: c.bits, Group: c.group})
			}
			d := cpu.NewDevice(cpu.Config{})
			defer d.Close()
			if _, err := models.Load(dir, nn.Config{Scope: d.NewSession()}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func sameParam(t *testing.T, w *models.Weights, p *nn.Param, was array.Array, linear bool, c quant.Config) {
	t.Helper()
	g, ok, err := w.Grouped(p)
	if err != nil || ok != linear {
		t.Fatalf("%s: integers %v, error %v: want %v", p.Name, ok, err, linear)
	}
	a, err := w.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, was.Len())
	packed.Floats(want, was, 0)
	if linear {
		if was.DType() == array.BF16 {
			c.Scale = quant.BF16Scale
		}
		in := was.Shape()[len(was.Shape())-1]
		m := quant.Round(c, want, was.Len()/in, in)
		if !slices.Equal(m.Values, g.Values) || !slices.Equal(m.Scales, g.Scales) || g.Zeros != nil {
			t.Fatalf("%s: integers differ", p.Name)
		}
		want = m.Floats()
	}
	got := make([]float32, a.Len())
	packed.Floats(got, a, 0)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: values differ", p.Name)
	}
}

// TestQuantizeMistakes: what cannot be is said in one line.
func TestQuantizeMistakes(t *testing.T) {
	m := tinyModel(t, "llama", nn.Config{})
	dir := filepath.Join(t.TempDir(), "out")
	err := models.SaveQuantized(dir, m, models.QuantizeConfig{Bits: 4, Group: 128})
	if err == nil || !strings.Contains(err.Error(), "64 columns: want a multiple of the group of 128") {
		t.Errorf("a group that does not divide: got %v", err)
	}
	if err := models.SaveQuantized(dir, m, models.QuantizeConfig{Bits: 4, Group: 32}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for old, c := range map[string][2]string{
		`"group_size": 32`:          {`"group_size": 64`, "got shape [64,2], want [64,1]"},
		`"pack-quantized"`:          {`"float-quantized"`, "want pack-quantized"},
		`"compressed-tensors"`:      {`"bitsandbytes"`, `got "bitsandbytes", want one of`},
		`"input_activations": null`: {`"input_activations": {"num_bits": 8}`, "activations are not supported"},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, c[0], 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: got %v, want an error with %q", c[0], err, c[1])
		}
	}
}
