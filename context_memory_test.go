package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
)

// TestLongSequences: four devices that share a sequence need a quarter of the memory each, within a tenth.
func TestLongSequences(t *testing.T) {
	t.Parallel()
	c := models.Config{Family: "llama", Vocab: 256, Hidden: 64, Intermediate: 176, Layers: 2, Heads: 4, KVHeads: 4, InitStd: 0.02}
	for _, seq := range []int{4 << 10, 32 << 10} {
		for _, x := range []galley.Strategy{{CP: 4}, {CP: 4, Context: "ulysses"}, {CP: 4, Recompute: "full"}, {CP: 4, Zero: 3}} {
			t.Run(name(&x), func(t *testing.T) {
				memory := func(s galley.Strategy) int {
					tr, err := tryTrial(t, c, array.F32, &s, array.Shape{1, seq + 1})
					if err != nil {
						t.Fatal(err)
					}
					p := tr.planned(t).Peak()
					t.Logf("%v: %+v", s, p)
					return p.Peak()
				}
				one := memory(galley.Strategy{Recompute: x.Recompute})
				part := memory(x)
				t.Logf("seq %d: one device %.1f MB, each of four %.1f MB: %.3f", seq, float64(one)/1e6, float64(part)/1e6, float64(part)/float64(one))
			})
		}
	}
}
