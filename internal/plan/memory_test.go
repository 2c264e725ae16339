package plan

import (
	"testing"

	"github.com/galley-ml/galley/strategy"
)

// TestProducts holds the bytes that torchtitan's selective recomputation keeps of Llama 3 8B: with its input,
// attention's result and the products of queries, values and gate, 6.75 hidden states a token, and the last
// product's where nothing compiles the layer.
func TestProducts(t *testing.T) {
	e := &Estimator{bytes: 2, w: Workload{Model: mustModel(t, "llama-3-8b"), Seq: 8192}}
	s := strategy.Strategy{TP: 1, CP: 1, MicroBatch: 2, Recompute: strategy.Products}
	tokens := 2 * 8192.0
	sums := 4 * 32.0
	near(t, "compiled", e.productActivations(&s, false)/tokens-sums, 6.75*2*4096, 0)
	e.w.Software.Eager = 1.15
	near(t, "eager", e.productActivations(&s, false)/tokens-sums, 7.75*2*4096, 0)
}

// TestUpdate says what an optimizer needs that copies gradients: where it is more than activations were, the
// peak is the update's. Pieces take the place of activations, blocks do not.
func TestUpdate(t *testing.T) {
	at := func(pieces, block int) Memory {
		e := estimator(t, "llama-2-7b", "4 A100", 4, 2048,
			Software{GradBytes: 2, UpdatePieces: pieces, UpdateBlock: block})
		return estimate(t, e, strategy.Strategy{PP: 4, MicroBatch: 1, Recompute: strategy.Full}).Stages[1].Memory
	}
	plain := at(0, 0)
	n := plain.Weights / 2
	work := plain.Activations + plain.Logits + plain.Buffers
	for _, c := range []struct {
		pieces, block       int
		allocated, reserved float64 // for each parameter
	}{{12, 0, 28, 28}, {0, 14, 30, 30 + work/n}, {4, 14, 30, 34}} {
		m := at(c.pieces, c.block)
		near(t, "allocated", m.Allocated()/n, c.allocated, 1e-6)
		near(t, "reserved", (m.Reserved()-m.Slack)/n, c.reserved, 1e-6)
		if m.Total() != m.Allocated()+m.Context+m.Slack {
			t.Errorf("%+v: what the allocator keeps must not be needed", m)
		}
	}
}

// TestRootUnit says that embedding and head stay gathered, twice, and that one rank gathers nothing.
func TestRootUnit(t *testing.T) {
	at := func(hardware string, dp int, root bool) float64 {
		e := estimator(t, "llama-3-8b", hardware, 8, 8192, Software{RootUnit: root})
		return estimate(t, e, strategy.Strategy{DP: dp, MicroBatch: 1, Zero: 3}).Memory.Buffers
	}
	ends := 128256 * 4096.0
	m := mustModel(t, "llama-3-8b")
	layer := m.layer(false).total() // one of two gathered copies lies where the ends were gathered
	near(t, "more", at("8 H100", 8, true)-at("8 H100", 8, false), 2*2*(2*ends+4096)-2*layer, 1)
	near(t, "one rank", at("1 H100", 1, true), 0, 0)
}

// TestContext says that communicators between hosts take memory of their own.
func TestContext(t *testing.T) {
	for hardware, want := range map[string]float64{"8 H100": contextBytes, "2x4 H100 ib=400G": contextBytes +
		networkBytes} {
		e := estimator(t, "llama-3-8b", hardware, 8, 2048, Software{})
		near(t, hardware, estimate(t, e, strategy.Strategy{DP: 8, MicroBatch: 1, Zero: 1}).Memory.Context, want, 0)
	}
}

// TestKeepGrads says that 16-bit gradients beside float32 sums are 2 bytes more for each parameter, and
// gathered inputs 4 for each token and column.
func TestKeepGrads(t *testing.T) {
	s := strategy.Strategy{TP: 2, PP: 1, DP: 4, MicroBatch: 1, Zero: 1, Sequence: true}
	at := func(soft Software) Memory {
		return estimate(t, estimator(t, "llama-3-8b", "8 H100", 8, 2048, soft), s).Memory
	}
	plain := at(Software{})
	near(t, "gradients", at(Software{KeepGrads: true}).Buffers, plain.Weights, 1)
	near(t, "inputs", at(Software{KeepGathered: true}).Activations-plain.Activations, 32*2048*4*4096, 1)
}

// TestHeldLogits says that what a pipeline holds of logits until the next micro-batch counts only where there
// is one, and that buckets of gradients are where logits were if those are large.
func TestHeldLogits(t *testing.T) {
	at := func(batch, micro int) Memory {
		e := estimator(t, "gpt3-1.3b", "2 A100", batch, 1024,
			Software{LogitBytes: 10, HeldLogits: 4, CommBuffer: 1e12})
		return estimate(t, e, strategy.Strategy{DP: 2, MicroBatch: micro}).Memory
	}
	alone, few, many := at(4, 2), at(8, 2), at(64, 16)
	near(t, "held", few.Logits/alone.Logits, 1.4, 1e-9)
	m := mustModel(t, "gpt3-1.3b")
	layer := many.Activations / float64(m.Layers)
	near(t, "large logits: a layer is kept", many.Cache, layer, 1)
	near(t, "small ones: buckets of 16 bits besides", few.Cache, layer/8+few.Weights, 1)
}

// TestStageGathered says that a stage whose parameters stay gathered holds them and their gradients whole,
// and that one stage alone does not.
func TestStageGathered(t *testing.T) {
	at := func(pp int, kept bool) float64 {
		e := estimator(t, "llama-3-8b", "8 H100", 8, 2048, Software{StageGathered: kept})
		return estimate(t, e, strategy.Strategy{DP: 8 / pp, PP: pp, MicroBatch: 1, Zero: 3}).Memory.Buffers
	}
	near(t, "one stage", at(1, true), at(1, false), 0)
	m := mustModel(t, "llama-3-8b")
	half := m.Params() / 2
	near(t, "two stages", at(2, true), half*(2+4), 1e7)
}
