package forecast

import (
	"fmt"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/strategy"
)

// File returns the strategy of a file that galley plan wrote, for a run. It returns an error for a plan of
// another model, batch or sequence length, or of another number of devices, unless that is 0.
func File(path string, r Run) (strategy.Strategy, error) {
	f, err := planfile.Load(path)
	if err != nil {
		return strategy.Strategy{}, err
	}
	w, err := r.workload()
	if err == nil {
		err = matches(f, w, r.Devices)
	}
	if err != nil {
		return strategy.Strategy{}, fmt.Errorf("%s: %w", path, err)
	}
	s, err := Runnable(f)
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Runnable returns the strategy of a plan in a trainer's form: with its number of micro-batches, its planned
// stages, and the planned precision of products.
func Runnable(f *planfile.File) (strategy.Strategy, error) {
	s, err := runnable(folded(f.Strategy), f.Workload.Batch)
	if err != nil {
		return s, err
	}
	if len(f.Stages) > 1 && s.Layers == nil {
		s.Layers = f.Stages
	}
	s.AMP, err = amp(f.Workload.Precision)
	return s, err
}

// folded converts the expert parallelism of a planned strategy to a trainer's: a plan's EP counts all devices
// that share experts, those of the tensor axis first, while a trainer's counts only those of the data axes.
func folded(s strategy.Strategy) strategy.Strategy {
	if s = s.Filled(); s.ETP == 1 {
		s.EP = max(1, s.EP/s.TP)
	}
	return s
}

// amp returns a planned precision as a strategy's AMP.
func amp(precision string) (string, error) {
	switch precision {
	case "", "bf16":
		return "bf16", nil
	case "fp16":
		return "f16", nil
	case "fp32", "tf32":
		return "off", nil
	}
	return "", fmt.Errorf("precision %s: devices here compute in bf16, fp16 and fp32: plan with --precision "+
		"bf16",
		precision)
}

// matches returns how a plan differs from the run.
func matches(f *planfile.File, w plan.Workload, devices int) error {
	switch have := f.Workload; {
	case sameShape(have.Model, w.Model) != "":
		return fmt.Errorf("it is for another model: %s: make a new one with galley plan",
			sameShape(have.Model, w.Model))
	case have.Batch != w.Batch || have.Seq != w.Seq:
		return fmt.Errorf("it is for %d sequences of %d tokens: this run has %d of %d: make a new one with "+
			"galley plan, "+
			"or use those", have.Batch, have.Seq, w.Batch, w.Seq)
	case devices > 0 && f.Strategy.Devices() != devices:
		return fmt.Errorf("it is for %d devices: this run has %d", f.Strategy.Devices(), devices)
	}
	return nil
}

// sameShape returns the first difference between a planned model and the one to run; empty if there is
// none.
func sameShape(a, b plan.Model) string {
	for _, x := range []struct {
		what         string
		planned, got int
	}{
		{"layers", a.Layers, b.Layers}, {"hidden size", a.Hidden, b.Hidden}, {"heads", a.Heads, b.Heads},
		{"key heads", orElse(a.KVHeads, a.Heads), orElse(b.KVHeads, b.Heads)},
		{"head size", orElse(a.HeadDim, a.Hidden/max(1, a.Heads)), orElse(b.HeadDim, b.Hidden/max(1, b.Heads))},
		{"rank of keys and values", a.Latent.KVRank, b.Latent.KVRank},
		{"inner size", a.FFN, b.FFN}, {"vocabulary", a.Vocab, b.Vocab}, {"experts", a.Experts.Count,
			b.Experts.Count},
	} {
		if x.planned != x.got {
			return fmt.Sprintf("%s: the plan has %d, this has %d", x.what, x.planned, x.got)
		}
	}
	return ""
}

func orElse(n, fallback int) int {
	if n == 0 {
		return fallback
	}
	return n
}

// runnable returns a planned strategy for steps of a batch, or the reason why no trainer supports it.
func runnable(s strategy.Strategy, batch int) (strategy.Strategy, error) {
	s, err := s.ForBatch(batch)
	if err == nil {
		err = s.Check()
	}
	return s, err
}
