package dryrun

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// Run is a language model trained on windows of a text, as galley train does it unless it is told otherwise:
// by AdamW, with the norm of gradients limited.
type Run struct {
	Model      models.Config
	Batch, Seq int
	Strategy   strategy.Strategy
}

// Plan returns the step of a run with the tapes of all its devices.
func Plan(r Run) (*executor.Plan, error) {
	m, err := models.New(r.Model, nn.Config{})
	if err != nil {
		return nil, err
	}
	arranged, _, err := forecast.Arrange(m, r.Strategy, r.Seq)
	if err != nil {
		return nil, err
	}
	return choose.Plan(executor.Config{
		Params: m.Params(), Strategy: &r.Strategy, Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95}, ClipNorm: 1,
		Loss: func(batch []*op.Tensor) *op.Tensor { return loss(arranged, r.Model.Task, batch[0]) },
	}, Windows(r.Batch, r.Seq))
}

// Windows returns the type of a batch: each token of a window but the first is predicted.
func Windows(batch, seq int) ir.Type {
	return ir.Type{DType: array.I32, Shape: array.Shape{batch, seq + 1}}
}

// loss returns that of windows. A head that labels sequences takes the last tokens for labels: of how many
// numbers they are is all that the step's memory depends on.
func loss(model models.Model, task models.Task, windows *op.Tensor) *op.Tensor {
	batch, n := windows.Dim(0), windows.Dim(1)
	labels := op.Narrow(windows, 1, 1, n)
	switch task {
	case models.Classify:
		labels = op.Reshape(op.Narrow(windows, 1, n-1, n), batch)
	case models.Answer:
		labels = op.Narrow(windows, 1, n-2, n)
	}
	return model.Loss(op.Narrow(windows, 1, 0, n-1), labels)
}

// File returns the run of a plan's file. A config, where its family is set, is the model; otherwise it is one
// of the shape that was planned for.
func File(f *planfile.File, config models.Config) (Run, error) {
	s, err := forecast.Runnable(f)
	if err != nil {
		return Run{}, err
	}
	if config.Family == "" {
		if config, err = forecast.ConfigOf(f.Workload.Model); err != nil {
			return Run{}, err
		}
	}
	return Run{Model: config, Batch: f.Workload.Batch, Seq: f.Workload.Seq, Strategy: s}, nil
}

// Memory returns the bytes that each device takes.
func Memory(p *executor.Plan) []int64 {
	var list []int64
	for _, d := range p.Devices {
		list = append(list, int64(d.Memory.Peak()))
	}
	return list
}

// Over says which device of a plan's file takes more in Galley's tapes than the hardware has, which the
// estimate of the search did not see; it is empty where all fit, or the file does not say what devices take.
func Over(f *planfile.File) (string, error) {
	hw, err := f.Hardware()
	if err != nil {
		return "", err
	}
	least := hw.Filled().Groups[0].Device
	for _, g := range hw.Filled().Groups {
		if g.Device.Memory < least.Memory {
			least = g.Device
		}
	}
	for d, bytes := range f.Predicted.Devices {
		if float64(bytes) > least.Memory {
			return fmt.Sprintf("device %d takes %s in these tapes: %s has %s: pin what takes less, such as "+
				"recompute=full or zero=3", d, units.Bytes(float64(bytes)), least.Name, units.Bytes(least.Memory)), nil
		}
	}
	return "", nil
}
