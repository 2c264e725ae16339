package plan

import (
	"testing"

	"github.com/galley-ml/galley/strategy"
)

// TestOncePerHost says that a token that goes to a host once takes less of the network: with top 8 of experts
// over 4 hosts, 3.6 copies in place of 8; and that inside a host nothing changes.
func TestOncePerHost(t *testing.T) {
	s := strategy.Strategy{DP: 32, EP: 32, MicroBatch: 1, Zero: 1}
	plain := estimate(t, estimator(t, "qwen3-30b-a3b", "4x8 H100 ib=400G", 32, 4096, Software{}), s).Parts.EP
	once := estimate(t, estimator(t, "qwen3-30b-a3b", "4x8 H100 ib=400G", 32, 4096, Software{OncePerHost: true}),
		s).Parts.EP
	if share := once / plain; share < 0.4 || share > 0.55 {
		t.Errorf("%g of the time, want 3.6 of 8 and a little", share)
	}
	s = strategy.Strategy{DP: 8, EP: 8, MicroBatch: 1, Zero: 1}
	plain = estimate(t, estimator(t, "qwen3-30b-a3b", "8 H100", 8, 4096, Software{}), s).Parts.EP
	once = estimate(t, estimator(t, "qwen3-30b-a3b", "8 H100", 8, 4096, Software{OncePerHost: true}), s).Parts.EP
	near(t, "one host", once, plain, 1e-12)
}

// TestScaleOnce says that three products of three tensors make three short copies in place of six.
func TestScaleOnce(t *testing.T) {
	w := Workload{Model: mustModel(t, "llama-3-8b"), Batch: 8, Seq: 8192, Precision: "fp8"}
	c := mustCluster(t, "8 H100")
	var made [3]float64
	for i, s := range []Workload{{Precision: "bf16"}, {Precision: "fp8"},
		{Precision: "fp8", Software: Software{ScaleOnce: true}}} {
		w.Precision, w.Software = s.Precision, s.Software
		p, ok := newPricer(&c.Groups[0].Device, &Calibration{}, &w)
		if !ok {
			t.Fatal("no rate")
		}
		p.peak, p.ceiling = 1e30, 1 // only what is read and written counts
		if s.Precision == "bf16" {
			p.plain = p.peak
		}
		q, err := p.program(&w, pieceKey{kind: mlpPiece, tokens: 8192, tp: 1, width: 14336})
		if err != nil {
			t.Fatal(err)
		}
		made[i] = q.forward + q.input + q.weight
	}
	near(t, "copies", (made[2]-made[0])/(made[1]-made[0]), 0.5, 1e-9)
}

// TestGatherBucket says that parameters gathered tensor by tensor wait for as many latencies.
func TestGatherBucket(t *testing.T) {
	s := strategy.Strategy{DP: 512, MicroBatch: 1, Zero: 1}
	large := estimate(t, estimator(t, "llama-3-8b", "64x8 A100 ib=50G", 512, 2048, Software{}), s).Parts.DP
	small := estimate(t, estimator(t, "llama-3-8b", "64x8 A100 ib=50G", 512, 2048, Software{GatherBucket: 25e6}),
		s).Parts.DP
	if small < large+0.5 {
		t.Errorf("%g s in small pieces, %g in large ones: want half a second more", small, large)
	}
}

// TestSustain says that no product is faster than what a device keeps up: LLMCompass measured A100 at up to
// 0.94 of its peak, at its boost clock; 0.87 lasts.
func TestSustain(t *testing.T) {
	w := Workload{Model: mustModel(t, "gpt3-175b"), Batch: 1, Seq: 2048}
	cal := Published()
	p, ok := newPricer(&mustCluster(t, "8 A100").Groups[0].Device, &cal, &w)
	if !ok {
		t.Fatal("no rate")
	}
	for d, e := range p.measured {
		if e > p.ceiling+1e-12 {
			t.Errorf("%+v: %g, the ceiling is %g", d, e, p.ceiling)
		}
	}
	near(t, "three sequences against two and four", p.efficiency(dims{1, 1, 6144, 12288, 12288}),
		(p.efficiency(dims{1, 1, 4096, 12288, 12288})+p.efficiency(dims{1, 1, 8192, 12288, 12288}))/2, 0.03)
}
