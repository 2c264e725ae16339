package bench

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// StepConfig is a training step of a GPT-2: learned positions, tanh-GELU, tied head, AdamW.
type StepConfig struct {
	Layers, Dim, Heads, Seq, Batch, Vocab int
	Threads, Runs                         int
	Mode                                  galley.Mode
	// Profile adds the time of each op to the result.
	Profile bool
}

// StepResult is how long a step takes and what it needs.
type StepResult struct {
	Model   string `json:"model"`
	Params  int    `json:"params"`
	Threads int    `json:"threads"`
	Timing
	TokensPerSecond float64 `json:"tokens_per_s"`
	// MatmulGFLOP is the work of the matrix products, forward and backward; GFLOPS is it over the median time.
	MatmulGFLOP float64 `json:"matmul_gflop"`
	GFLOPS      float64 `json:"gflops"`
	// PeakBytes is the planned memory of the step, which is what it allocates: parameters, optimizer, activations.
	PeakBytes int     `json:"peak_bytes"`
	Loss      float64 `json:"loss"`
	// Ops is the time of each op in all measured and warm-up steps, the longest first, where it was asked for.
	Ops []OpTime `json:"ops,omitempty"`
}

// OpTime is what one op took in all.
type OpTime struct {
	Op    string  `json:"op"`
	Calls int     `json:"calls"`
	MS    float64 `json:"ms"`
	Share float64 `json:"share"`
}

// String is the result in a line.
func (r StepResult) String() string {
	line := fmt.Sprintf("%s, %.2fM parameters, threads=%d: best %.1f ms, median %.1f ms, %.0f tokens/s, %.1f GFLOP/s, peak %.1f MB, loss %.4f",
		r.Model, float64(r.Params)/1e6, r.Threads, r.BestMS, r.MedianMS, r.TokensPerSecond, r.GFLOPS, float64(r.PeakBytes)/1e6, r.Loss)
	for _, o := range r.Ops {
		line += fmt.Sprintf("\n%5.1f%%  %9.2f ms  %6d calls  %s", 100*o.Share, o.MS, o.Calls, o.Op)
	}
	return line
}

// Step times whole training steps.
func Step(c StepConfig) (StepResult, error) {
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	model, err := models.New(models.Config{
		Family: "gpt2", Vocab: c.Vocab, Hidden: c.Dim, Layers: c.Layers, Heads: c.Heads, Positions: c.Seq, Tied: true,
	}, nn.Config{Scope: d.NewSession(), Seed: 1})
	if err != nil {
		return StepResult{}, err
	}
	times := profile{}
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: model.Params(), Mode: c.Mode, Observe: times.observer(c.Profile),
		Loss:      func(batch []*op.Tensor) *op.Tensor { return model.Loss(batch[0], batch[1]) },
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}, Schedule: optim.Constant{LR: 3e-4},
	})
	if err != nil {
		return StepResult{}, err
	}
	ids, labels := tokens(c, 1), tokens(c, 2)
	var last galley.Metrics
	timing, err := measure(2, c.Runs, func() (err error) { last, err = t.Step(ids, labels); return err })
	if err != nil {
		return StepResult{}, err
	}
	r := c.result(d, model, timing, t.Memory().Peak(), last.Loss)
	r.Ops = times.sorted()
	return r, nil
}

func (c StepConfig) result(d *galley.Device, model models.Model, timing Timing, peak int, loss float64) StepResult {
	params := 0
	for _, p := range model.Params() {
		params += p.Type.Shape.Len()
	}
	toks := float64(c.Batch * c.Seq)
	matrices := float64(c.Layers*12*c.Dim*c.Dim + c.Vocab*c.Dim)
	gflop := (6*matrices*toks + 12*float64(c.Layers*c.Dim*c.Seq)*toks) / 1e9
	return StepResult{
		Model:  fmt.Sprintf("gpt2 L%d d%d h%d S%d B%d V%d", c.Layers, c.Dim, c.Heads, c.Seq, c.Batch, c.Vocab),
		Params: params, Threads: d.Threads(), Timing: timing,
		TokensPerSecond: toks / timing.MedianMS * 1e3, MatmulGFLOP: gflop, GFLOPS: gflop / timing.MedianMS * 1e3,
		PeakBytes: peak, Loss: loss,
	}
}

// tokens is a batch of random ids, spread evenly by a multiplicative hash.
func tokens(c StepConfig, seed uint32) array.Array {
	a := array.New(array.I32, c.Batch, c.Seq)
	for i := range a.Len() {
		h := (uint32(i) + seed*7919) * 2654435761
		array.Data[int32](a)[i] = int32(uint64(h) * uint64(c.Vocab) >> 32)
	}
	return a
}
