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

// Loader returns batches by index. An epoch has Len batches, and indices continue over epochs. A batch
// depends only on its index, so reading one has no side effect and a run can resume anywhere. data.NewLoader
// and data.Tokens make loaders.
type Loader interface {
	Len() int
	Batch(i int) ([]array.Array, error)
}

// Described may be implemented by a Loader to return the facts that its batches depend on. The loaders of
// package data implement it.
type Described interface{ Facts() []data.Fact }

// Sampled may be implemented by a Loader: From returns the batch of Rows samples that starts at a given
// sample, so that a run whose batch size has changed continues with the very next sample.
type Sampled interface {
	From(sample int64) ([]array.Array, error)
	Rows() int
}

// Parted may be implemented by a Loader that can make some rows of a batch without the others: Part is like
// Batch, but rows for which own returns false may be zero. Each process of a job then makes only the rows
// that its devices read. data.Loader and data.TokenLoader implement it.
type Parted interface {
	Part(i int, own func(row int) bool) ([]array.Array, error)
}

// PartedFrom is Parted for a Sampled loader: PartFrom is like From.
type PartedFrom interface {
	PartFrom(sample int64, own func(row int) bool) ([]array.Array, error)
}

// Owner may be implemented by a Subject whose devices are spread over processes: OwnRows returns which rows
// of batches like this one the devices of this process read; nil means all.
type Owner interface {
	OwnRows(batch []array.Array) ([]bool, error)
}

// Subject is what a fit trains: galley's Engine and Trainer.
type Subject interface {
	// Steps returns the number of steps taken, Sample the index of the next sample. SetSample sets it for
	// loaders that do not count samples by rows.
	Steps() int
	Sample() int64
	SetSample(sample int64)
	// Begin starts a step; wait returns its metrics when it has finished.
	Begin(batch []array.Array) (wait func() (Metrics, error), err error)
	// Evaluate returns the loss and the metrics over the first batches of a loader.
	Evaluate(ctx context.Context, l Loader, batches int) (Evaluation, error)
	// Describe sets the facts of the loader, which checkpoints store.
	Describe(facts []data.Fact)
	// Resume restores a checkpoint from a directory.
	Resume(dir string, c ResumeConfig) (*Resumed, error)
	// Write starts a checkpoint of the state after the last step.
	Write(ctx context.Context, to *checkpoint.Keeper, scalars ...checkpoint.Scalar) error
	// State returns the state after the last step without gathering it, with additional scalars.
	State(scalars ...checkpoint.Scalar) (checkpoint.State, error)
	// Agree returns the maximum over the processes of a job.
	Agree(stop int) (int, error)
	// Peers returns the processes that write checkpoints together; nil means one.
	Peers() checkpoint.Peers
	// Lost returns why the state can no longer be saved, or nil.
	Lost() error
}

// Metrics are the results of one step.
type Metrics struct {
	// Step counts from 0.
	Step int
	// Loss is computed before the update.
	Loss float64
	// GradNorm is the global gradient norm before clipping.
	GradNorm float64
	LR       float64
	// Skipped marks an f16 step whose gradients overflowed: only the loss scale changed.
	Skipped bool
	// Wait is how long the step waited for its batch: if it is large, data loading is the bottleneck.
	Wait time.Duration
}

// DivergedError is returned by a step whose loss or gradient norm is NaN or infinite.
type DivergedError struct{ Metrics Metrics }

func (e *DivergedError) Error() string {
	if e.Metrics.Step == 0 {
		return fmt.Sprintf(
			"step 1: loss is %v and gradient norm %v before any update: the first weights, the batch or the loss "+
				"give them, "+
				"not the learning rate: look there, or set DetectNaN (--detect-nan) to see the first op",
			e.Metrics.Loss,
			e.Metrics.GradNorm,
		)
	}
	return fmt.Sprintf(
		"step %d: loss is %v and gradient norm %v: training diverged: lower the learning rate (it was %.3g) or "+
			"clip",
		e.Metrics.Step+1,
		e.Metrics.Loss,
		e.Metrics.GradNorm,
		e.Metrics.LR,
	)
}

// Evaluation is the result of evaluating a model on some batches.
type Evaluation struct {
	// Step is the number of training steps before it.
	Step int
	Loss float64
	// Values has the metrics in their order.
	Values []MetricValue
}

// MetricValue is a metric's name and value.
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

// Count returns the number of batches to use: n, or an epoch for 0.
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

// Metric is a measure of quality: a numerator and a denominator that are summed over all batches. It is
// computed on the devices, so that only two numbers leave them.
type Metric struct {
	Name string
	// Compute returns a batch's numerator and denominator, both scalars.
	Compute func(outputs, labels []*op.Tensor) (sum, count *op.Tensor)
	// Finish, if set, is applied to the final quotient.
	Finish func(x float64) float64
}

// Predict yields f's result for each of the first batches of a loader; 0 means an epoch.
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
