package nn

import (
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// BatchNormConfig configures BatchNorm. The zero value has PyTorch's defaults.
type BatchNormConfig struct {
	// Eps is added to variances; 0 means 1e-5.
	Eps float64
	// Momentum is the weight of a step's statistics in the running ones; 0 means 0.1. Cumulative weighs all
	// steps equally, like PyTorch's momentum=None.
	Momentum   float64
	Cumulative bool
	// Plain omits the learned scale and shift.
	Plain bool
}

// BatchNorm normalises each channel of x [batch, channels, …]: in training by the statistics of the batch,
// else by running statistics, which training steps update in buffers. Statistics are those of the whole batch
// over all devices, like PyTorch's SyncBatchNorm, and of each micro-batch if a batch is split; running
// statistics are updated once per step with the mean over micro-batches.
type BatchNorm struct {
	// Weight and Bias are nil in a layer without a learned scale and shift.
	Weight, Bias *Param
	// Mean and Var are the running statistics, Count the number of steps they cover.
	Mean, Var, Count *Param
	BatchNormConfig
}

// NewBatchNorm creates a layer with PyTorch's parameter names.
func NewBatchNorm(in *Init, channels int, c BatchNormConfig) *BatchNorm {
	if c.Eps == 0 {
		c.Eps = 1e-5
	}
	if c.Momentum == 0 {
		c.Momentum = 0.1
	}
	l, shape := &BatchNorm{BatchNormConfig: c}, array.Shape{channels}
	if !c.Plain {
		l.Weight, l.Bias = in.Param("weight", shape, Constant(1)), in.Param("bias", shape, Constant(0))
	}
	l.Mean, l.Var = in.Buffer("running_mean", shape, Constant(0)), in.Buffer("running_var", shape, Constant(1))
	l.Count = in.Buffer("num_batches_tracked", array.Shape{}, Constant(0))
	return l
}

// Forward normalises x.
func (l *BatchNorm) Forward(x *op.Tensor) *op.Tensor {
	mean, variance := l.Mean.Value, l.Var.Value
	if l.Mean.Training() {
		mean, variance = l.moments(x)
	}
	var weight, bias *op.Tensor
	if l.Weight != nil {
		weight, bias = l.Weight.Value, l.Bias.Value
	}
	return op.BatchNormInference(x, mean, variance, weight, bias, l.Eps)
}

// moments returns those of a batch, and updates the running ones with them.
func (l *BatchNorm) moments(x *op.Tensor) (mean, variance *op.Tensor) {
	if x.Err() == nil && len(x.Shape()) > 1 && x.Dim(0)*x.Shape()[2:].Len() == 1 {
		err := errors.New("one element of each channel has no variance: want a larger batch while training")
		bad := ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "batch_norm", Err: err})
		return bad, bad
	}
	mean, variance, sample := op.BatchMoments(x)
	if mean.Err() != nil {
		return mean, mean
	}
	count := l.Count.Value
	mean = l.Mean.Add(mean, l.towards(mean, l.Mean))
	variance = l.Var.Add(variance, l.towards(sample, l.Var))
	return l.Count.Add(mean, op.Const(count, 1)), variance
}

// towards returns the change of a running statistic by that of a batch.
func (l *BatchNorm) towards(x *op.Tensor, running *Param) *op.Tensor {
	off := op.Sub(op.Cast(x, running.Type.DType), running.Value)
	if l.Cumulative {
		return op.Div(off, op.AddScalar(l.Count.Value, 1))
	}
	return op.MulScalar(off, l.Momentum)
}
