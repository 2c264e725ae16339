package galley_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
)

// TestMixedPrecision: computing in half the precision stays near f32, whatever the strategy, and learns as
// much.
func TestMixedPrecision(t *testing.T) {
	t.Parallel()
	const steps = 12
	exact := newTrial(t, tiny, array.F32, nil).train(t, steps)
	for _, s := range []galley.Strategy{
		{AMP: "bf16"}, {AMP: "f16"}, {DP: 2, TP: 2, AMP: "bf16", Sequence: true}, {DP: 2, Zero: 2, Micro: 2,
			AMP: "f16"}, {PP: 2, Micro: 4, AMP: "bf16", Schedule: "zbh1"}, {CP: 2, AMP: "bf16", Recompute: "full"},
	} {
		if testing.Short() && s.Devices() > 1 {
			continue
		}
		t.Run(name(&s), func(t *testing.T) {
			x := newTrial(t, tiny, array.F32, &s)
			skipped := 0
			for step := range steps {
				m, err := x.Step(x.windows(step))
				if err != nil {
					t.Fatal(err)
				}
				if m.Skipped {
					skipped++
				}
				// a skipped step puts the curve off by one
				if want := exact[2*step]; skipped == 0 && math.Abs(m.Loss-want) > 0.02 {
					t.Errorf("step %d: loss is %v, in f32 %v", step, m.Loss, want)
				}
				if step == steps-1 && m.Loss > exact[0]-0.2 {
					t.Errorf("after %d steps the loss is %v, at first it was %v", steps, m.Loss, exact[0])
				}
			}
			if skipped > 3 || skipped > 0 && s.AMP == "bf16" {
				t.Errorf("%d steps were skipped", skipped)
			}
		})
	}
}
