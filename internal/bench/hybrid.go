package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// HybridResult is a step on many in-process devices beside the same step on one with all the threads.
type HybridResult struct {
	Model    string  `json:"model"`
	Strategy string  `json:"strategy"`
	Devices  int     `json:"devices"`
	OneMS    float64 `json:"one_device_ms"`
	ManyMS   float64 `json:"many_devices_ms"`
	// Ratio is the median of the ratios of consecutive steps: many devices' time over one's.
	Ratio     float64 `json:"ratio"`
	OneBytes  int     `json:"one_device_peak_bytes"`
	ManyBytes int     `json:"largest_device_peak_bytes"`
}

// String prints the result in a line.
func (r HybridResult) String() string {
	return fmt.Sprintf("%s: one device %.1f ms, %s on %d devices %.1f ms: %.2fx; peak %.1f MB on one, %.1f "+
		"MB on each",
		r.Model, r.OneMS, r.Strategy, r.Devices, r.ManyMS, r.Ratio, float64(r.OneBytes)/1e6,
		float64(r.ManyBytes)/1e6)
}

// Hybrid times steps of a strategy and of one device in turn, so that other load affects both
// equally.
func Hybrid(c StepConfig, s galley.Strategy) (HybridResult, error) {
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	one, _, err := c.trainer(d, nil)
	if err != nil {
		return HybridResult{}, err
	}
	many, model, err := c.trainer(d, &s)
	if err != nil {
		return HybridResult{}, err
	}
	defer many.Close()
	plan, err := many.Plan(galley.Type{DType: array.I32, Shape: array.Shape{c.Batch, c.Seq}},
		galley.Type{DType: array.I32, Shape: array.Shape{c.Batch, c.Seq}})
	if err != nil {
		return HybridResult{}, err
	}
	ids, labels := tokens(c, 1), tokens(c, 2)
	var a, b, ratios []float64
	for i := range c.Runs + 1 {
		x, err := stepTime(one, ids, labels)
		if err != nil {
			return HybridResult{}, err
		}
		y, err := stepTime(many, ids, labels)
		if err != nil {
			return HybridResult{}, err
		}
		if i > 0 { // the first is a warm-up
			a, b, ratios = append(a, x), append(b, y), append(ratios, y/x)
		}
	}
	for _, list := range [][]float64{a, b, ratios} {
		slices.Sort(list)
	}
	r := c.result(model, Timing{MedianMS: 1}, 0, 0)
	n := len(a) / 2
	return HybridResult{Model: r.Model, Strategy: s.String(), Devices: s.Devices(), OneMS: a[n], ManyMS: b[n],
		Ratio:    ratios[n],
		OneBytes: one.Memory().Peak(), ManyBytes: plan.Peak().Peak()}, nil
}

func (c StepConfig) trainer(d *galley.Device, s *galley.Strategy) (*galley.Trainer, models.Model, error) {
	model, err := c.model(d, &galley.TrainerConfig{})
	if err != nil {
		return nil, nil, err
	}
	arranged := model
	if s != nil {
		if arranged, _, err = galley.Arrange(model, *s, c.Seq); err != nil {
			return nil, nil, err
		}
	}
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: model.Params(), Strategy: s, Observe: c.observe,
		Loss: func(batch []*op.Tensor) *op.Tensor { return arranged.Loss(batch[0], batch[1]) },
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95,
			WeightDecay: 0.1}, Schedule: optim.Constant{LR: 3e-4}, ClipNorm: 1,
	})
	return t, model, err
}

func stepTime(t *galley.Trainer, batch ...array.Array) (float64, error) {
	start := time.Now()
	_, err := t.Step(batch...)
	return float64(time.Since(start)) / float64(time.Millisecond), err
}
