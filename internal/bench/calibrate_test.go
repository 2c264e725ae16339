package bench

import (
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// TestCalibrate says that what is measured here reads back and prices strategies on this machine.
func TestCalibrate(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds")
	}
	var kept []plan.Calibration
	cal, err := Calibrate(CalibrateConfig{Devices: 4, Passes: 1, Keep: func(c plan.Calibration) error {
		kept = append(kept, c)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	// One that is ended half-way leaves what it had, which can be used.
	if len(kept) != 3 || string(kept[2].YAML()) != string(cal.YAML()) {
		t.Errorf("got %d calibrations on the way, want 3, the last of them the result", len(kept))
	}
	for i, c := range kept {
		if _, err := plan.ParseCalibration(c.YAML()); err != nil {
			t.Errorf("what there is after part %d: %v", i, err)
		}
	}
	back, err := plan.ParseCalibration(cal.YAML())
	if err != nil {
		t.Fatal(err)
	}
	hw, err := cluster.Parse(back.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	m := plan.Model{Name: "tiny", Layers: 4, Hidden: 128, Heads: 4, FFN: 512, Vocab: 1000}
	e, err := plan.NewEstimator(plan.Workload{Model: m, Batch: 8, Seq: 64, Precision: "fp32"}, hw, back)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Estimate(strategy.Strategy{DP: 2, TP: 2, Micro: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !(got.Step > 0) || got.Level != 1 || !(got.Low < got.Step && got.Step < got.High) {
		t.Errorf("got %+v, want a time of level 1 within its interval", got)
	}
}
