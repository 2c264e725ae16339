package galley_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TestSequenceParallel: with sequence parallelism devices gather tokens, never weights, and each has heads of
// its own in attention, as in Megatron's. The tensor axis must not become the sequence's within a layer.
func TestSequenceParallel(t *testing.T) {
	const layers, heads, tokens, batch, width = 2, 4, 32, 2, 32
	for _, s := range []galley.Strategy{{TP: 2, Sequence: true}, {TP: 4, Sequence: true, Micro: 2},
		{DP: 2, TP: 2, Sequence: true}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			d := galley.CPU(galley.Config{Threads: 1})
			defer d.Close()
			m, err := models.New(models.Config{Family: "llama", Vocab: 4096, Hidden: width, Intermediate: 2 * width,
				Layers: layers, Heads: heads, KVHeads: heads},
				nn.Config{Scope: d.NewSession(), Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			gathered := 0
			tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: &s,
				Optimizer: optim.AdamW{}, Schedule: optim.Constant{LR: 1e-3},
				Loss: func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[1]) },
				Observe: func(n *galley.Node, _ time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					switch n.Op().Name() {
					case "ring_shift":
						t.Errorf("attention shares a sequence in a ring")
					case "all_gather":
						if x := n.Out()[0].Shape(); len(x) == 2 && x[0] >= width && x[1] >= width {
							t.Errorf("a weight is gathered: %v", x)
						}
						gathered++
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			ids := array.New(array.I32, batch*2, tokens)
			if _, err := tr.Step(ids, ids); err != nil {
				t.Fatal(err)
			}
			if gathered == 0 {
				t.Error("nothing is gathered: tokens are not split between layers")
			}
		})
	}
}
