package fit

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/op"
)

// Loader is batches by number: Len of them are an epoch, and they continue over epochs. A batch depends on
// its number only, so that looking at one takes nothing away and a run goes on anywhere. data.NewLoader and
// data.Tokens make loaders.
type Loader interface {
	Len() int
	Batch(i int) ([]array.Array, error)
}

// Described may be implemented by a Loader: what its batches depend on. Those of package data do.
type Described interface{ Facts() []data.Fact }

// Sampled may be implemented by a Loader: From is the batch of Rows samples that begins with the sample of a
// number, so that a run whose batches have become others continues with the very next sample.
type Sampled interface {
	From(sample int64) ([]array.Array, error)
	Rows() int
}

// Subject is what a fit trains: galley's Engine and Trainer.
type Subject interface {
	// Steps returns how many steps have been taken, Sample the number of the next sample, which SetSample
	// sets where the rows of batches are not what samples are counted by.
	Steps() int
	Sample() int64
	SetSample(sample int64)
	// Begin starts a step; wait returns its metrics when it is done.
	Begin(batch []array.Array) (wait func() (Metrics, error), err error)
	// Evaluate returns the loss and the metrics over the first batches of a loader.
	Evaluate(ctx context.Context, l Loader, batches int) (Evaluation, error)
	// Describe reports what the batches depend on, which checkpoints keep.
	Describe(facts []data.Fact)
	// Resume continues from a checkpoint in a directory.
	Resume(dir string, c ResumeConfig) (*Resumed, error)
	// Write begins a checkpoint of the state after the last step.
	Write(ctx context.Context, to *checkpoint.Keeper, scalars ...checkpoint.Scalar) error
	// State returns the state after the last step, where it is, with further numbers.
	State(scalars ...checkpoint.Scalar) (checkpoint.State, error)
	// Agree returns the largest of the numbers that the processes of a job give; of one process, its own.
	Agree(stop int) (int, error)
	// Peers returns the processes that write checkpoints together; nil is one.
	Peers() checkpoint.Peers
	// Lost returns why there is no state to save any more; nil where there is.
	Lost() error
}

// Metrics is what one step tells.
type Metrics struct {
	// Step is 0 for the first.
	Step int
	// Loss is before the step's update.
	Loss float64
	// GradNorm is the norm of all gradients, before clipping.
	GradNorm float64
	LR       float64
	// Skipped is a step in f16 whose gradients overflowed: it changed nothing but the scale of the loss.
	Skipped bool
	// Wait is how long a fit waited for the batch: data that is slower than the step.
	Wait time.Duration
}

// DivergedError is a step whose loss or gradients are not finite numbers.
type DivergedError struct{ Metrics Metrics }

func (e *DivergedError) Error() string {
	if e.Metrics.Step == 0 {
		return fmt.Sprintf(
			"step 1: loss is %v and gradient norm %v before any update: the first weights, the batch or the loss give them, "+
				"not the learning rate: look there, or set DetectNaN (--detect-nan) to see the first op",
			e.Metrics.Loss,
			e.Metrics.GradNorm,
		)
	}
	return fmt.Sprintf(
		"step %d: loss is %v and gradient norm %v: training diverged: lower the learning rate (it was %.3g) or clip",
		e.Metrics.Step+1,
		e.Metrics.Loss,
		e.Metrics.GradNorm,
		e.Metrics.LR,
	)
}

// Evaluation is how good a model is on some batches.
type Evaluation struct {
	// Step is how many training steps came before.
	Step int
	Loss float64
	// Values is the metrics, in their order.
	Values []MetricValue
}

// MetricValue is a metric and what it came to.
type MetricValue struct {
	Name  string
	Value float64
}

// Value returns the loss or a metric by name.
func (e Evaluation) Value(name string) (float64, error) {
	if name == "" || name == "loss" {
		return e.Loss, nil
	}
	names := []string{"loss"}
	for _, v := range e.Values {
		if v.Name == name {
			return v.Value, nil
		}
		names = append(names, v.Name)
	}
	return 0, fmt.Errorf("evaluation: no metric %q: want one of %v", name, names)
}

// Count returns how many batches of a loader to take: so many, or all of an epoch for 0.
func Count(who string, l Loader, batches int) (int, error) {
	switch {
	case l == nil || l.Len() == 0:
		return 0, fmt.Errorf("%s: loader has no batches: make one with data.NewLoader or data.Tokens", who)
	case batches < 0:
		return 0, fmt.Errorf("%s: %d batches: want 0 for all, or more", who, batches)
	case batches == 0:
		return l.Len(), nil
	}
	return batches, nil
}

// Metric is a number that reports how good a model is: the quotient of two sums over all batches. It is
// computed where the model is, so that only two numbers leave the devices.
type Metric struct {
	Name string
	// Compute is a batch's share: a sum, and what it is divided by, both scalars.
	Compute func(outputs, labels []*op.Tensor) (sum, count *op.Tensor)
	// Finish, if set, is applied to the quotient at the end.
	Finish func(x float64) float64
}

// Predict returns what f answers to each of the first batches of a loader; 0 takes all of an epoch.
func Predict(
	l Loader,
	batches int,
	f func(batch []array.Array) ([]array.Array, error),
) iter.Seq2[[]array.Array,
	error] {
	return func(yield func([]array.Array, error) bool) {
		n, err := Count("predict", l, batches)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range n {
			out, err := l.Batch(i)
			if err == nil {
				out, err = f(out)
			}
			if err != nil {
				out, err = nil, fmt.Errorf("predict: batch %d: %w", i, err)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}
