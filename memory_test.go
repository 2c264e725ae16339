package galley_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/strategy"
)

// TestMemoryAsPlanned: devices take what was predicted to the byte, the process grows by that when training
// starts, and a step takes next to nothing more: kernels and collectives work in what is planned.
func TestMemoryAsPlanned(t *testing.T) {
	if testing.Short() {
		t.Skip("short: with the race detector, pools of buffers forget what they are given")
	}
	c := models.Config{Family: "llama", Vocab: 1024, Hidden: 64, Intermediate: 96, Layers: 4, Heads: 4,
		KVHeads: 4, InitStd: 0.02}
	for _, s := range []galley.Strategy{
		{}, {Micro: 2}, {DP: 2}, {DP: 3}, {TP: 2}, {TP: 2, Sequence: true}, {DP: 2, Zero: 3, Micro: 2}, {PP: 2,
			Micro: 4}, {PP: 2, Micro: 4, Schedule: "zbv"},
		{CP: 2}, {CP: 2, Context: "ulysses"}, {DP: 2, TP: 2, PP: 2, Micro: 2, Recompute: "full"}, {DP: 2, Zero: 1,
			Offload: strategy.Offload{Optimizer: 1, Dir: t.TempDir()}},
		{DP: 4, Zero: 3, Shard: 2, Micro: 2}, {DP: 2, Zero: 2, Micro: 2, Offload: strategy.Offload{Optimizer: 0.5,
			Activations: 1, Parameters: 1, Dir: t.TempDir()}},
	} {
		t.Run(name(&s), func(t *testing.T) {
			x, err := tryTrial(t, c, array.F32, &s, array.Shape{8, 65})
			if err != nil {
				t.Fatal(err)
			}
			predicted, memory := 0, x.planned(t).Memory
			for _, m := range memory {
				predicted += m.Peak()
			}
			values := 0 // the parameters' first values, which are let go when devices have them
			for _, p := range x.model.Params() {
				values += p.Type.Bytes()
			}
			before := inUse()
			x.train(t, 1)
			for d, taken := range x.MemoryAllocated() {
				if taken != memory[d].Peak() {
					t.Errorf("device %d took %d bytes, predicted were %d", d, taken, memory[d].Peak())
				}
			}
			if grown := inUse() - before; max(grown-predicted+values, predicted-values-grown) > len(memory)*allowed {
				t.Errorf("the process has grown by %d bytes, predicted were %d", grown, predicted-values)
			}
			// a collection takes kernels' buffers, which then are made again
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			x.train(t, 5)
			var first, last runtime.MemStats
			runtime.ReadMemStats(&first)
			x.train(t, 11)
			runtime.ReadMemStats(&last)
			if each := int(last.TotalAlloc-first.TotalAlloc) / 6 / len(memory); each > allowed {
				t.Errorf("a step takes %d bytes on each device beside what is planned", each)
			}
		})
	}
}

// allowed is what a device may take beside what is planned, in a step and for good: a model of this size has
// 4 MB of it.
const allowed = 1 << 20

// inUse returns the bytes of the heap that are reachable; memory that kernels hand on to each other is given
// up by the second collection.
func inUse() int {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
