package check

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
)

// TestSelf says that every strategy can be laid out and predicted, and that the memory planned is the memory predicted; three are run.
// Times are for galley check self, on a quiet machine.
func TestSelf(t *testing.T) {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	p, args, err := selfStep(d)
	if err != nil {
		t.Fatal(err)
	}
	hw := cluster.Local(cluster.LocalConfig{Devices: 8})
	cases := selfCases()
	if len(cases) != 30 {
		t.Errorf("%d strategies, want 30", len(cases))
	}
	for i, k := range cases {
		if err := k.prepare(p, hw, &SelfConfig{Host: d, Calibration: plan.Calibration{}}); err != nil {
			t.Errorf("%s, %s, %s: %v", k.mesh, k.plan, k.extra, err)
			continue
		}
		if k.memory != k.allocated || !(k.predicted > 0) {
			t.Errorf("%s, %s: %g s, predicted %d bytes, planned %d", k.mesh, k.plan, k.predicted, k.memory, k.allocated)
		}
		if i%12 == 5 {
			if err := k.step(args); err != nil {
				t.Error(err)
			}
		}
	}
}
