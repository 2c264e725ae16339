package galley_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/backend/backendtest"
)

// TestTogetherAccumulates: a step that the devices of a backend take in micro-batches, one device or several, has the losses, norms
// and parameters of one device that takes the batch at once, however it is spread and cut.
func TestTogetherAccumulates(t *testing.T) {
	one, host := togetherRun{}.trainer(t)
	want := trainFor(t, one, 3)
	for _, s := range []galley.Strategy{
		{Micro: 2}, {Micro: 3}, {Micro: 4}, {Micro: 2, Recompute: "selective"}, {Micro: 2, Recompute: "full"},
		{DP: 2, Micro: 2}, {TP: 2, Micro: 2}, {DP: 2, TP: 2, Micro: 2}, {TP: 2, Sequence: true, Micro: 4}, {CP: 2, Context: "ulysses", Micro: 2}, {CP: 2, Micro: 2},
		{DP: 2, Zero: 1, Micro: 2}, {DP: 2, Zero: 2, Micro: 2}, {DP: 2, Zero: 3, Micro: 2}, {DP: 2, TP: 2, Sequence: true, Zero: 2, Micro: 2},
		{DP: 2, Zero: 3, Micro: 2, Recompute: "full"}, {DP: 2, Zero: 1, Micro: 2, Recompute: "selective"}, {DP: 2, CP: 2, Context: "ulysses", Zero: 2, Micro: 2},
	} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			tr, m := togetherRun{backend: backendtest.Interpreter(4), strategy: &s}.trainer(t)
			sameNumbers(t, trainFor(t, tr, 3), want, 1e-10)
			sameParams(t, tr, m, host)
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
