package bench

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
)

func TestStepEagerEqualsStatic(t *testing.T) {
	c := StepConfig{Layers: 2, Dim: 32, Heads: 2, Seq: 16, Batch: 2, Vocab: 64, Threads: 2, Runs: 3}
	static, err := Step(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Mode = galley.Eager
	eager, err := Step(c)
	if err != nil {
		t.Fatal(err)
	}
	if static.Loss != eager.Loss || static.PeakBytes == 0 {
		t.Errorf("static %v\neager %v", static, eager)
	}
}

// TestStepInMicroBatches: a step that a backend takes in parts has the loss of one that it takes at once.
func TestStepInMicroBatches(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	c := StepConfig{Layers: 2, Dim: 32, Heads: 2, Seq: 16, Batch: 4, Vocab: 64, Threads: 2, Runs: 3,
		Backend: d.Backend()}
	whole, err := Step(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Micro = 4
	parts, err := Step(c)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(whole.Loss-parts.Loss) > 1e-4 || parts.PeakBytes >= whole.PeakBytes {
		t.Errorf("at once %v\nin parts %v", whole, parts)
	}
}

func TestGemmAllDTypes(t *testing.T) {
	for _, dtype := range []array.DType{array.F32, array.F64, array.BF16, array.F16} {
		if r, err := Gemm(GemmConfig{N: 33, Threads: 1, Runs: 1, DType: dtype}); err != nil || r.GFLOPS <= 0 {
			t.Errorf("%v: %v %v", dtype, r, err)
		}
	}
}

func TestAttentionMemoryIsLinear(t *testing.T) {
	peak := map[int]int{}
	for _, seq := range []int{128, 512} {
		r, err := Attention(AttentionConfig{Seq: seq, Heads: 2, HeadDim: 16, Threads: 1, Runs: 1})
		if err != nil {
			t.Fatal(err)
		}
		peak[seq] = r.PeakBytes
	}
	if peak[512] > 4*peak[128]+4096 {
		t.Errorf("peak bytes %v: want at most four times as much for four times the length", peak)
	}
}

func BenchmarkStep(b *testing.B) {
	c := StepConfig{Layers: 4, Dim: 256, Heads: 4, Seq: 256, Batch: 8, Vocab: 8192, Threads: 2, Runs: 7}
	for b.Loop() {
		r, err := Step(c)
		if err != nil {
			b.Fatal(err)
		}
		b.Log(r)
		b.ReportMetric(r.BestMS, "ms/step")
	}
}
