package plan

import (
	"testing"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// onCores returns an estimator of a small model on devices of one core each.
func onCores(t *testing.T, devices, batch int, cal Calibration, s Software) *Estimator {
	t.Helper()
	m := Model{Name: "small", Layers: 8, Hidden: 128, Heads: 4, FFN: 352, Vocab: 256, Gated: true}
	w := Workload{Model: m, Batch: batch, Seq: 128, Precision: "fp32", Software: s}
	hw := cluster.Local(cluster.LocalConfig{Devices: devices})
	d := &hw.Groups[0].Device
	d.Units, d.Rates[0].Peak = 1, cluster.CoreRate // however many this machine has
	e, err := NewEstimator(w, hw, cal)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestCoresLinear: a core has no units to fill, so a quarter of the rows takes a quarter of the time, and
// more micro-batches take hardly longer than fewer.
func TestCoresLinear(t *testing.T) {
	few := estimate(t, onCores(t, 1, 4, Calibration{}, Software{}), strategy.Strategy{})
	many := estimate(t, onCores(t, 1, 16, Calibration{}, Software{}), strategy.Strategy{})
	near(t, "computing 16 sequences in place of 4", many.Parts.Compute/few.Parts.Compute, 4, 0.05)
	e := onCores(t, 2, 16, Calibration{}, Software{})
	one := estimate(t, e, strategy.Strategy{PP: 2, Micro: 1})
	all := estimate(t, e, strategy.Strategy{PP: 2, Micro: 16})
	near(t, "computing 16 micro-batches in place of one", all.Parts.Compute/one.Parts.Compute, 1, 0.05)
	if all.Step > 0.7*one.Step {
		t.Errorf("%g s with 16 micro-batches, %g s with one: the pipeline has no bubble", all.Step, one.Step)
	}
}

// TestCoresMeasured: a measured curve is priced in place of typical cores.
func TestCoresMeasured(t *testing.T) {
	name := cluster.Local(cluster.LocalConfig{}).Groups[0].Device.Name
	slow := Calibration{Devices: []Curve{{Device: name, Ceiling: 0.01}}}
	usual := estimate(t, onCores(t, 1, 16, Calibration{}, Software{}), strategy.Strategy{})
	got := estimate(t, onCores(t, 1, 16, slow, Software{}), strategy.Strategy{})
	if got.Step < 10*usual.Step {
		t.Errorf("%g s by a curve of a hundredth of the peak, %g s by usual cores", got.Step, usual.Step)
	}
}

// TestSumGrads: adding up gradients costs a pass over them for every micro-batch but the first.
func TestSumGrads(t *testing.T) {
	plain, sums := onCores(t, 1, 16, Calibration{}, Software{}), onCores(t, 1, 16, Calibration{},
		Software{SumGrads: true})
	extra := func(micro int) float64 {
		s := strategy.Strategy{Micro: micro}
		return estimate(t, sums, s).Step - estimate(t, plain, s).Step
	}
	near(t, "one micro-batch", extra(1), 0, 1e-12)
	d := plain.pricers[0]
	pass := 3 * 4 * plain.w.Model.Params() / (d.device.Bandwidth * d.curve.Stream)
	near(t, "four", extra(4)/pass, 3, 0.05)
}
