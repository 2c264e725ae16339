package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// BranchesConfig is training steps of one sample of a model of parallel blocks, in which attention and the
// MLP do not depend on each other.
type BranchesConfig struct {
	Hidden, Layers, Seq int
	// Steps is the number of steps of each variant, which take turns.
	Steps int
}

// BranchesResult is the milliseconds of a step: with a sample on each device, as in data parallelism, and
// with the branches of a sample on two.
type BranchesResult struct {
	Hidden int `json:"hidden"`
	Layers int `json:"layers"`
	Seq    int `json:"seq"`
	// OneMS and TwoMS are measured, the best of all steps. Predicted is the prediction for branches: its prices
	// are of a typical machine, scaled by the measured time of one device.
	OneMS       float64 `json:"one_ms"`
	TwoMS       float64 `json:"two_ms"`
	PredictedMS float64 `json:"predicted_ms"`
	// Same reports whether all losses and norms are equal, bit for bit.
	Same bool `json:"same"`
}

// String prints the result in lines.
func (r BranchesResult) String() string {
	same := "losses are the same, to the bit"
	if !r.Same {
		same = "losses DIFFER"
	}
	return fmt.Sprintf("gptj, %d layers of %d, one sample of %d tokens\n"+
		"a sample a device (data parallel)                       measured %8.2f ms\n"+
		"attention and MLP on two devices  predicted %8.2f ms  measured %8.2f ms, %.2f times as fast\n%s",
		r.Layers, r.Hidden, r.Seq, r.OneMS, r.PredictedMS, r.TwoMS, r.OneMS/r.TwoMS, same)
}

// Branches times steps of both variants.
func Branches(c BranchesConfig) (r BranchesResult, err error) {
	r = BranchesResult{Hidden: c.Hidden, Layers: c.Layers, Seq: c.Seq, OneMS: math.Inf(1), TwoMS: math.Inf(1),
		Same: true}
	var ways [2]executor.Executor
	var seconds [2]float64
	for i := range ways {
		config, closer, err := c.config(i == 1)
		if err != nil {
			return r, err
		}
		defer closer()
		if seconds[i], err = c.forecast(config); err != nil {
			return r, err
		}
		if ways[i], err = choose.New(config); err != nil {
			return r, err
		}
		defer ways[i].Close()
	}
	for n := range c.Steps + 1 { // the first compiles
		var told [2]executor.Result
		for i, best := range []*float64{&r.OneMS, &r.TwoMS} {
			begin := time.Now()
			if told[i], err = c.step(ways[i], n); err != nil {
				return r, err
			}
			if ms := 1e3 * time.Since(begin).Seconds(); n > 0 {
				*best = min(*best, ms)
			}
		}
		r.Same = r.Same && told[0] == told[1]
	}
	r.PredictedMS = r.OneMS * seconds[1] / seconds[0]
	return r, nil
}

// config returns the training of a model on one device with a thread, or on two by branches.
func (c BranchesConfig) config(two bool) (out executor.Config, closer func(), err error) {
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	m, err := models.New(models.Config{Family: "gptj", Vocab: 256, Hidden: c.Hidden, Layers: c.Layers,
		Heads: max(1, c.Hidden/64), Positions: c.Seq}, nn.Config{Scope: d.NewSession(), Seed: 1})
	if err != nil {
		d.Close()
		return out, nil, err
	}
	out = executor.Config{Device: d, Params: m.Params(), Optimizer: optim.AdamW{}, World: transport.New,
		Loss: func(batch []*op.Tensor) *op.Tensor { return m.Loss(batch[0], batch[1]) }}
	if two {
		out.Strategy = &strategy.Strategy{Branches: 2}
	}
	return out, d.Close, nil
}

// forecast returns the predicted seconds of a step on a typical machine whose devices have a core each.
func (c BranchesConfig) forecast(config executor.Config) (float64, error) {
	t := ir.Type{DType: array.I32, Shape: array.Shape{1, c.Seq}}
	p, err := choose.Plan(config, t, t)
	if err != nil {
		return 0, err
	}
	host := plan.UsualHost(2)
	n := len(p.Devices)
	f, err := p.Step.Forecast(step.Machine{Cores: n, Threads: n, Crowd: 1, Latency: host.Idle, Prices: host})
	return f.Seconds, err
}

func (c BranchesConfig) step(e executor.Executor, n int) (executor.Result, error) {
	ids, labels := array.New(array.I32, 1, c.Seq), array.New(array.I32, 1, c.Seq)
	for i := range c.Seq {
		array.Data[int32](ids)[i], array.Data[int32](labels)[i] = int32((i*7+n)%256), int32((i*7+n+7)%256)
	}
	r, err := e.Step(executor.Input{LR: 1e-3, Count: float64(n + 1), Batch: []array.Array{ids, labels}})
	if err != nil {
		return executor.Result{}, err
	}
	return r.Wait()
}
