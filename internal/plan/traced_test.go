package plan

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	hf "github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// workIn returns what the nodes of a program compute: operations, and bytes of values that are read and
// written.
func workIn(f *ir.Func) (flops, bytes float64) {
	for _, n := range f.Nodes() {
		w := WorkOf(n)
		flops, bytes = flops+w.Flops, bytes+w.Bytes
	}
	return flops, bytes
}

// tracedLayer returns the work of one layer of a model, forward and backward: what a step of one layer more
// does more.
func tracedLayer(t *testing.T, c hf.Config, batch, seq int) (flops, bytes float64) {
	t.Helper()
	for _, layers := range []int{2, 3} {
		c.Layers = layers
		f, b := workIn(tracedStep(t, c, batch, seq))
		flops, bytes = f-flops, b-bytes
	}
	return flops, bytes
}

// tracedStep returns the loss of a model and its gradients, as a trainer traces them.
func tracedStep(t *testing.T, c hf.Config, batch, seq int) *ir.Func {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	m, err := hf.New(c, nn.Config{Scope: d.NewSession(), DType: array.BF16, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := ir.NewBuilder("step")
	var params []*op.Tensor
	for _, p := range m.Params() {
		params = append(params, b.Param(p.Name, p.Type))
	}
	ids := b.Param("ids", ir.Type{DType: array.I32, Shape: array.Shape{batch, seq}})
	restore := nn.Bind(m.Params(), params)
	loss := m.Loss(ids, ids)
	restore()
	grads := op.Grad([]*op.Tensor{loss}, nil, params)
	f, err := b.Build(append([]*op.Tensor{loss}, grads...)...)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = pass.Join(f); err != nil {
		t.Fatal(err)
	}
	if f, err = pass.Optimize(f); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPiecesAreTheTracedLayer holds the layer that strategies are priced by to the layer that a model traces:
// the operations are the same but for 0.2 %, and the bytes but for 15 % in llama and 25 % in gpt2, where a
// model also adds biases and gradients where the stream parts, which a compiler fuses. Of experts both are
// the same.
func TestPiecesAreTheTracedLayer(t *testing.T) {
	const batch, seq = 2, 256
	for _, c := range []struct {
		family       string
		kv, experts  int
		model        Model
		flops, bytes float64
	}{
		{"llama", 2, 0, Model{KVHeads: 2, Gated: true}, 0.002, 0.15},
		{"qwen3", 2, 0, Model{KVHeads: 2, Gated: true, QKNorm: 64}, 0.002, 0.15},
		{"gemma2", 2, 0, Model{KVHeads: 2, Gated: true, Norms: 4}, 0.01, 0.25},
		{"gpt2", 0, 0, Model{LayerNorm: true, Positions: seq}, 0.002, 0.25},
		{"mixtral", 8, 4, Model{Gated: true, Experts: Experts{Count: 4, TopK: 2, FFN: 512}}, 0.002, 0.02},
	} {
		t.Run(c.family, func(t *testing.T) {
			config := hf.Config{Family: c.family, Vocab: 64, Hidden: 256, Intermediate: 512, Heads: 8, KVHeads: c.kv,
				Positions: seq, Experts: c.experts}
			if c.experts > 0 {
				config.ExpertsPerToken = 2
			}
			wantFlops, wantBytes := tracedLayer(t, config, batch, seq)
			m := c.model
			m.Layers, m.Hidden, m.Heads, m.FFN, m.Vocab = 2, 256, 8, 512, 64
			w := Workload{Model: m, Batch: batch, Seq: seq}
			k := layerKey{tp: 1, cp: 1, ep: 1, etp: 1, micro: batch, moe: m.MoE()}
			var flops, bytes float64
			for _, p := range w.pieces(k, batch*seq, batch*seq) {
				f, _, err := w.program(p.key)
				if err != nil {
					t.Fatal(err)
				}
				if f, err = pass.Optimize(f); err != nil {
					t.Fatal(err)
				}
				x, y := workIn(f)
				flops, bytes = flops+p.times*x, bytes+p.times*y
			}
			t.Logf("%.4g operations of %.4g traced (%+.1f %%), %.4g bytes of %.4g (%+.1f %%)",
				flops, wantFlops, 100*(flops/wantFlops-1), bytes, wantBytes, 100*(bytes/wantBytes-1))
			if math.Abs(flops/wantFlops-1) > c.flops || math.Abs(bytes/wantBytes-1) > c.bytes {
				t.Errorf("the planner's layer has %.4g operations and %.4g bytes, the model's %.4g and %.4g",
					flops, bytes, wantFlops, wantBytes)
			}
		})
	}
}
