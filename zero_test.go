package galley_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
)

// bytesPer is what training takes for a parameter, in bytes: computing in the optimizer's dtype, and in half
// of it with precise weights beside the two moments of AdamW. Sums of gradients are in f32 either way: with ψ
// parameters on n devices that is Megatron's 18ψ for mixed precision (6ψ + 12ψ/n with stage 1), where the
// paper on ZeRO, which sums in f16, has 16ψ.
var bytesPer = map[string]struct{ weight, sum, slots int }{"off": {4, 4, 8}, "bf16": {2, 4, 12}}

// TestZeroMemory: what a device keeps from step to step is the closed form of the stage of ZeRO, to the byte
// where everything divides by the devices and by the alignment of memory.
func TestZeroMemory(t *testing.T) {
	t.Parallel()
	wide := models.Config{Family: "llama", Vocab: 256, Hidden: 256, Intermediate: 256, Layers: 1, Heads: 8,
		KVHeads: 4, InitStd: 0.02}
	for _, amp := range []string{"off", "bf16"} {
		for _, degrees := range [][2]int{{2, 1}, {8, 1}, {4, 2}} {
			for stage := range 4 {
				n, tp := degrees[0], degrees[1]
				if testing.Short() && tp == 1 {
					continue
				}
				s := galley.Strategy{DP: n, TP: tp, Zero: stage, AMP: amp}
				t.Run(name(&s), func(t *testing.T) {
					x := newTrial(t, wide, array.F32, &s)
					want := closedForm(own(x, tp), n, stage, amp)
					for d, got := range x.planned(t).Memory {
						if got.Weights != want.Weights || got.Sums != want.Sums || got.Slots != want.Slots {
							t.Errorf("device %d: got %+v, want %+v", d, got, want)
						}
					}
				})
			}
		}
	}
}

// TestZeroGroupsMemory: in groups of a host's devices, state is split as by a group's devices alone, and
// the groups have copies of it.
func TestZeroGroupsMemory(t *testing.T) {
	t.Parallel()
	wide := models.Config{Family: "llama", Vocab: 256, Hidden: 256, Intermediate: 256, Layers: 1, Heads: 8,
		KVHeads: 4, InitStd: 0.02}
	for stage := 1; stage <= 3; stage++ {
		for _, shard := range []int{2, 4} {
			s := galley.Strategy{DP: 8, Zero: stage, Shard: shard}
			t.Run(name(&s), func(t *testing.T) {
				x := newTrial(t, wide, array.F32, &s)
				want := closedForm(own(x, 1), shard, stage, "off")
				for d, got := range x.planned(t).Memory {
					if got.Weights != want.Weights || got.Sums != want.Sums || got.Slots != want.Slots {
						t.Errorf("device %d: got %+v, want %+v", d, got, want)
					}
				}
			})
		}
	}
}

// closedForm returns the state of a device: each part is split by n from a stage of ZeRO on.
func closedForm(psi, n, stage int, amp string) (m galley.DeviceMemory) {
	b := bytesPer[amp]
	part := func(bytes, from int) int {
		if stage >= from {
			return bytes * psi / n
		}
		return bytes * psi
	}
	return galley.DeviceMemory{Weights: part(b.weight, 3), Sums: part(b.sum, 2), Slots: part(b.slots, 1)}
}

// own returns how many parameters a device computes with: tensor parallelism splits all but those of norms.
func own(x *trial, tp int) int {
	psi := 0
	for _, p := range x.model.Params() {
		if len(p.Type.Shape) == 1 {
			psi += p.Type.Shape.Len()
		} else {
			psi += p.Type.Shape.Len() / tp
		}
	}
	return psi
}

// TestZeroMemoryUneven: where things do not divide, the largest device has at most the rounding of each
// tensor more: a row of its largest dim, and memory to the next boundary.
func TestZeroMemoryUneven(t *testing.T) {
	t.Parallel()
	odd := models.Config{Family: "llama", Vocab: 101, Hidden: 24, Intermediate: 50, Layers: 3, Heads: 3,
		KVHeads: 3, InitStd: 0.02}
	for stage := 1; stage <= 3; stage++ {
		for _, n := range []int{3, 7} {
			t.Run(fmt.Sprintf("zero%d dp%d", stage, n), func(t *testing.T) {
				x := newTrial(t, odd, array.F32, &galley.Strategy{DP: n, Zero: stage})
				slack := 0
				for _, p := range x.model.Params() {
					most := 0
					for _, k := range p.Type.Shape {
						most = max(most, k)
					}
					slack += p.Type.Shape.Len()/most + array.Alignment/4
				}
				want := closedForm(own(x, 1), n, stage, "off")
				total := galley.DeviceMemory{}
				for d, got := range x.planned(t).Memory {
					if got.Weights > want.Weights+4*slack || got.Sums > want.Sums+4*slack || got.Slots > want.Slots+8*slack {
						t.Errorf("device %d: got %+v, want %+v and at most %d elements more", d, got, want, slack)
					}
					total.Slots += got.Slots
				}
				if total.Slots < 8*own(x, 1) {
					t.Errorf("all devices together keep %d bytes of the optimizer, want at least %d", total.Slots,
						8*own(x, 1))
				}
			})
		}
	}
}
