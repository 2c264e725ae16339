package nn

import (
	"errors"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// BatchNormConfig says how a batch is normalised. The zero value is PyTorch's.
type BatchNormConfig struct {
	// Eps is added to variances; 0 means 1e-5.
	Eps float64
	// Momentum is how much of a step's statistics enters the running ones; 0 means 0.1. Cumulative gives all
	// steps the same weight instead, as PyTorch's momentum None.
	Momentum   float64
	Cumulative bool
	// Plain learns no scale and no shift.
	Plain bool
}

// BatchNorm normalises each channel of x [batch, channels, …]: while its model trains by the mean and the
// variance of the batch, else by running ones, which training steps keep in buffers. The statistics are those
// of the whole batch on whatever devices it is, as PyTorch's SyncBatchNorm, and of each micro-batch alone
// where a batch is cut into several; the running ones are changed once a step, by the mean of the
// micro-batches.
type BatchNorm struct {
	// Weight and Bias are nil in a layer that learns none.
	Weight, Bias *Param
	// Mean and Var are the running statistics, Count how many steps they are of.
	Mean, Var, Count *Param
	BatchNormConfig
}

// NewBatchNorm makes a layer whose tensors have PyTorch's names.
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

// moments returns those of a batch, which go into the running ones.
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

// towards returns how far a running statistic goes to that of a batch.
func (l *BatchNorm) towards(x *op.Tensor, running *Param) *op.Tensor {
	off := op.Sub(op.Cast(x, running.Type.DType), running.Value)
	if l.Cumulative {
		return op.Div(off, op.AddScalar(l.Count.Value, 1))
	}
	return op.MulScalar(off, l.Momentum)
}
