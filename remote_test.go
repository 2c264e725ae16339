package galley_test

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// tinyCurve returns the losses of a few steps of a small llama, and its first parameter afterwards.
func tinyCurve(t *testing.T, d *galley.Device, c galley.TrainerConfig, steps int) ([]float64, array.Array) {
	t.Helper()
	s := d.NewSession()
	model, err := models.New(models.Tiny(64), nn.Config{Scope: s, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	c.Device, c.Params = d, model.Params()
	c.Loss = func(batch []*op.Tensor) *op.Tensor { return model.Loss(batch[0], batch[0]) }
	trainer, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := array.New(array.I32, 2, 16)
	for i := range ids.Len() {
		array.Data[int32](ids)[i] = int32(i * 7 % 64)
	}
	var losses []float64
	for range steps {
		p, err := trainer.Start(ids)
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Wait()
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, m.Loss)
	}
	if err := trainer.Sync(s); err != nil {
		t.Fatal(err)
	}
	first, err := galley.Read(model.Params()[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode == galley.Static && trainer.Memory().Peak() == 0 {
		t.Error("memory is not told")
	}
	return losses, first
}

// TestTrainerOnBackend: training behind the interface of chips gives the same losses and parameters.
func TestTrainerOnBackend(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	want, wantParam := tinyCurve(t, d, galley.TrainerConfig{}, 4)
	got, gotParam := tinyCurve(t, d, galley.TrainerConfig{Backend: d.Backend()}, 4)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-5 {
			t.Errorf("losses %v, want %v", got, want)
		}
	}
	for i := range wantParam.Len() {
		if math.Abs(gotParam.At(i)-wantParam.At(i)) > 1e-4 {
			t.Fatalf("parameter element %d: got %v, want %v", i, gotParam.At(i), wantParam.At(i))
		}
	}
}

// TestTrainerComputesInBF16: products in 16 bits change losses a little, in both modes alike, and parameters
// stay f32.
func TestTrainerComputesInBF16(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	want, _ := tinyCurve(t, d, galley.TrainerConfig{}, 4)
	for _, mode := range []galley.Mode{galley.Static, galley.Eager} {
		got, param := tinyCurve(t, d, galley.TrainerConfig{Compute: array.BF16, Mode: mode}, 4)
		if param.DType() != array.F32 {
			t.Errorf("%v: parameters are %v", mode, param.DType())
		}
		same := true
		for i := range want {
			same = same && got[i] == want[i]
			if math.Abs(got[i]-want[i]) > 2e-2 {
				t.Errorf("%v: losses %v, want %v", mode, got, want)
			}
		}
		if same {
			t.Errorf("%v: nothing was computed in bf16", mode)
		}
	}
}

// TestRecomputeOnBackend: computing again changes no loss and saves memory.
func TestRecomputeOnBackend(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	want, _ := tinyCurve(t, d, galley.TrainerConfig{Backend: d.Backend()}, 3)
	for _, policy := range []strategy.Recompute{"selective", "full"} {
		got, _ := tinyCurve(t, d, galley.TrainerConfig{Backend: d.Backend(), Recompute: policy}, 3)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: losses %v, want %v", policy, got, want)
			}
		}
	}
	if _, err := galley.NewTrainer(galley.TrainerConfig{Backend: d.Backend(), Recompute: "half",
		Params: []*nn.Param{{}},
		Loss:   func([]*op.Tensor) *op.Tensor { return nil }}); err == nil || !strings.Contains(err.Error(),
		`recompute is "half"`) {
		t.Errorf("got %v, want an error that names the word", err)
	}
}

// TestSameLossesOnAccelerator: the same program gives the same losses on the host and on an accelerator.
func TestSameLossesOnAccelerator(t *testing.T) {
	b, err := galley.XLA(galley.XLAConfig{})
	if err != nil {
		t.Skipf("no accelerator: %v", err)
	}
	defer b.Close()
	d := galley.CPU(galley.Config{})
	defer d.Close()
	for _, c := range []struct {
		name  string
		c     galley.TrainerConfig
		limit float64
	}{
		{"f32", galley.TrainerConfig{}, 1e-4},
		{"bf16", galley.TrainerConfig{Compute: array.BF16}, 2e-2},
		{"selective", galley.TrainerConfig{Recompute: "selective"}, 1e-4},
		{"full", galley.TrainerConfig{Recompute: "full"}, 1e-4},
		{"micro", galley.TrainerConfig{Strategy: &galley.Strategy{Micro: 2}}, 1e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, _ := tinyCurve(t, d, galley.TrainerConfig{Compute: c.c.Compute}, 20)
			c.c.Backend = b
			got, _ := tinyCurve(t, d, c.c, 20)
			worst := 0.0
			for i := range want {
				worst = max(worst, math.Abs(got[i]-want[i]))
			}
			t.Logf("20 losses from %.4f to %.4f, largest difference %.2g", want[0], want[19], worst)
			if !(worst <= c.limit) {
				t.Errorf("losses %v, want %v", got, want)
			}
		})
	}
}

// TestStrategyOnBackend: of a strategy a backend of one device takes recompute and amp, and refuses the rest.
func TestStrategyOnBackend(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	want, _ := tinyCurve(t, d, galley.TrainerConfig{Backend: d.Backend(), Compute: array.BF16}, 2)
	got, _ := tinyCurve(t, d, galley.TrainerConfig{Backend: d.Backend(), Strategy: &galley.Strategy{AMP: "bf16",
		Recompute: "selective"}}, 2)
	if got[1] != want[1] {
		t.Errorf("losses %v, want %v", got, want)
	}
	_, err := galley.NewTrainer(galley.TrainerConfig{Backend: d.Backend(), Strategy: &galley.Strategy{DP: 2},
		Params: []*nn.Param{{}}, Loss: func([]*op.Tensor) *op.Tensor { return nil }})
	if err == nil || !strings.Contains(err.Error(), "takes 2 devices") {
		t.Errorf("got %v, want an error that says why", err)
	}
}
