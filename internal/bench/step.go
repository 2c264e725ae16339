package bench

import (
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// StepConfig is a training step of a GPT-2 (learned positions, tanh-GELU, tied head) or a llama (RMSNorm,
// SwiGLU, RoPE, untied head) with AdamW.
type StepConfig struct {
	// Model is gpt2 or llama; empty means gpt2.
	Model                                 string
	Layers, Dim, Heads, Seq, Batch, Vocab int
	// FFN is the width of llama's feed-forward layers, KVHeads its heads of keys and values; 0 means 8/3 of Dim,
	// and Heads.
	FFN, KVHeads  int
	Threads, Runs int
	Mode          galley.Mode
	// Compute is the dtype of products, if not f32.
	Compute array.DType
	// Backend runs the step; nil means the host. Recompute is its policy: none, selective or full.
	Backend   galley.Backend
	Recompute string
	// Micro is the number of micro-batches of a step on a Backend; 0 means one.
	Micro int
	// Profile adds the time of each op to the result.
	Profile bool
	// Primitive computes the loss by primitive ops alone.
	Primitive bool
	// Tell, if set, is called with the number of steps done, including those that are not measured.
	Tell func(what string, done, all int)
	// observe, if set, is called with the time of each node of a trainer.
	observe func(n *galley.Node, took time.Duration)
}

// StepResult is the time and memory of a step.
type StepResult struct {
	Model   string `json:"model"`
	Params  int    `json:"params"`
	Threads int    `json:"threads"`
	Timing
	TokensPerSecond float64 `json:"tokens_per_s"`
	// MatmulGFLOP is the work of the matrix products, forward and backward; GFLOPS is that over the median time.
	MatmulGFLOP float64 `json:"matmul_gflop"`
	GFLOPS      float64 `json:"gflops"`
	// PeakBytes is the planned memory of the step, which equals what it allocates: parameters, optimizer,
	// activations.
	PeakBytes int     `json:"peak_bytes"`
	Loss      float64 `json:"loss"`
	// Backend is the name of the backend; InitS is the time from the start until the parameters are initialized,
	// FirstS until the end of the first step, including compilation, and HostMS the caller's time in a step.
	Backend string  `json:"backend,omitempty"`
	InitS   float64 `json:"init_s,omitempty"`
	FirstS  float64 `json:"first_step_s,omitempty"`
	HostMS  float64 `json:"host_ms,omitempty"`
	// WaitedMS is the median of steps that are each waited for, by reading the loss, before the next starts; the
	// times above are those of a training loop, which reads a loss when the next step has started.
	WaitedMS float64 `json:"waited_ms,omitempty"`
	// Ops is the time of each op in all measured and warm-up steps, the longest first, if requested.
	Ops []OpTime `json:"ops,omitempty"`
}

// OpTime is the total time of one op.
type OpTime struct {
	Op    string  `json:"op"`
	Calls int     `json:"calls"`
	MS    float64 `json:"ms"`
	Share float64 `json:"share"`
}

// String prints the result in a line.
func (r StepResult) String() string {
	where := fmt.Sprintf("threads=%d", r.Threads)
	if r.Backend != "" {
		where = fmt.Sprintf("%s, first step after %.1f s, host %.2f ms", r.Backend, r.FirstS, r.HostMS)
	}
	line := fmt.Sprintf("%s, %.2fM parameters, %s: best %.1f ms, median %.1f ms, %.0f tokens/s, %.1f "+
		"GFLOP/s, peak %.1f MB, loss %.4f",
		r.Model, float64(r.Params)/1e6, where, r.BestMS, r.MedianMS, r.TokensPerSecond, r.GFLOPS,
		float64(r.PeakBytes)/1e6, r.Loss)
	for _, o := range r.Ops {
		line += fmt.Sprintf("\n%5.1f%%  %9.2f ms  %6d calls  %s", 100*o.Share, o.MS, o.Calls, o.Op)
	}
	return line
}

// warmSteps is the number of steps before the measured ones, after the first, which compiles.
const warmSteps = 2

// Step times whole training steps.
func Step(c StepConfig) (StepResult, error) {
	start := time.Now()
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	times := profile{}
	config := galley.TrainerConfig{
		Device: d, Backend: c.Backend, Recompute: strategy.Recompute(c.Recompute), Compute: c.Compute, Mode: c.Mode,
		Observe: times.observer(c.Profile), SkipNorm: c.Backend != nil,
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1}, Schedule: optim.Constant{LR: 3e-4},
	}
	if c.Micro > 1 {
		config.Strategy = &galley.Strategy{Micro: c.Micro}
	}
	model, err := c.model(d, &config)
	if err != nil {
		return StepResult{}, err
	}
	t, err := galley.NewTrainer(config)
	if err != nil {
		return StepResult{}, err
	}
	ready := time.Since(start)
	ids, labels := tokens(c, 1), tokens(c, 2)
	var last galley.Metrics
	taken, all := 0, 1+warmSteps+c.Runs
	step := func() (err error) {
		if c.Tell != nil {
			c.Tell("training steps", taken, all)
		}
		taken++
		last, err = t.Step(ids, labels)
		return err
	}
	if err := step(); err != nil {
		return StepResult{}, err
	}
	first := time.Since(start)
	timing, err := measure(warmSteps, c.Runs, step)
	if err != nil {
		return StepResult{}, err
	}
	r := c.result(model, timing, t.Memory().Peak(), last.Loss)
	r.Threads, r.Ops = d.Threads(), times.sorted()
	if c.Backend != nil {
		r.Backend, r.InitS, r.FirstS, r.WaitedMS = c.Backend.Name(), ready.Seconds(), first.Seconds(),
			timing.MedianMS
		if timing, r.HostMS, err = measureAhead(t, 3, c.Runs, ids, labels); err != nil {
			return StepResult{}, err
		}
		r.set(c, timing)
	}
	return r, t.Close()
}

// model makes the model, with values on the host or, for a backend, a program that initializes them there.
func (c StepConfig) model(d *galley.Device, t *galley.TrainerConfig) (models.Model, error) {
	shape := models.Config{Family: "gpt2", Vocab: c.Vocab, Hidden: c.Dim, Layers: c.Layers, Heads: c.Heads,
		Positions: c.Seq, Tied: true}
	if c.Model == "llama" {
		shape.Family, shape.Tied, shape.Intermediate, shape.KVHeads, shape.NormEps = "llama", false, c.FFN,
			c.KVHeads, 1e-5
		if c.FFN == 0 {
			shape.Intermediate = (c.Dim*8/3 + 15) / 16 * 16
		}
	}
	var scope op.Scope = d.NewSession()
	b := ir.NewBuilder("init")
	if c.Backend != nil {
		scope = b
	}
	model, err := models.New(shape, nn.Config{Scope: scope, Seed: 1, Frozen: c.Backend != nil})
	if err != nil {
		return nil, err
	}
	t.Params = model.Params()
	t.Loss = func(batch []*op.Tensor) *op.Tensor {
		loss := model.Loss(batch[0], batch[1])
		if c.Primitive {
			loss = primitive(loss)
		}
		return loss
	}
	if c.Backend != nil {
		t.Init, err = b.Build(nn.Values(model.Params())...)
	}
	return model, err
}

// measureAhead times steps as in a training loop: each starts before the loss of the previous one is read.
// host is the caller's time in a step.
func measureAhead(t *galley.Trainer, warm, runs int, batch ...array.Array) (timing Timing, host float64,
	err error) {
	var steps, hosts []float64
	var before *galley.Pending
	last := time.Now()
	for i := range warm + runs + 1 {
		start := time.Now()
		p, err := t.Start(batch...)
		if err != nil {
			return Timing{}, 0, err
		}
		took := time.Since(start)
		if before != nil {
			if _, err := before.Wait(); err != nil {
				return Timing{}, 0, err
			}
			if i > warm {
				steps, hosts = append(steps, milliseconds(time.Since(last))), append(hosts, milliseconds(took))
			}
			last = time.Now()
		}
		before = p
	}
	if _, err := before.Wait(); err != nil {
		return Timing{}, 0, err
	}
	slices.Sort(hosts)
	return timingOf(steps), hosts[len(hosts)/2], nil
}

func (c StepConfig) result(model models.Model, timing Timing, peak int, loss float64) StepResult {
	params := 0
	for _, p := range model.Params() {
		params += p.Type.Shape.Len()
	}
	r := StepResult{
		Model: fmt.Sprintf("%s L%d d%d h%d S%d B%d V%d", model.Config().Family, c.Layers, c.Dim, c.Heads, c.Seq,
			c.Batch, c.Vocab),
		Params: params, MatmulGFLOP: c.gflop(float64(params)), PeakBytes: peak, Loss: loss,
	}
	r.set(c, timing)
	return r
}

// set fills in a timing and the speeds computed from it.
func (r *StepResult) set(c StepConfig, timing Timing) {
	r.Timing = timing
	r.TokensPerSecond, r.GFLOPS = float64(c.Batch*c.Seq)/timing.MedianMS*1e3, r.MatmulGFLOP/timing.MedianMS*1e3
}

// gflop returns the work of the matrix products of a step. Llama's attention counts only the causal half, and
// every parameter but the embedding's is in a product.
func (c StepConfig) gflop(params float64) float64 {
	toks := float64(c.Batch * c.Seq)
	if c.Model == "llama" {
		return (6*(params-float64(c.Vocab*c.Dim)) + 6*float64(c.Layers*c.Dim*c.Seq)) * toks / 1e9
	}
	matrices := float64(c.Layers*12*c.Dim*c.Dim + c.Vocab*c.Dim)
	return (6*matrices*toks + 12*float64(c.Layers*c.Dim*c.Seq)*toks) / 1e9
}

// tokens returns a batch of random ids, spread evenly by a multiplicative hash.
func tokens(c StepConfig, seed uint32) array.Array {
	a := array.New(array.I32, c.Batch, c.Seq)
	for i := range a.Len() {
		h := (uint32(i) + seed*7919) * 2654435761
		array.Data[int32](a)[i] = int32(uint64(h) * uint64(c.Vocab) >> 32)
	}
	return a
}
