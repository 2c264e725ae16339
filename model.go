package galley

import (
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/model"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// Model is a set of parameters and the forward function that uses them. Language adapts a language model,
// ModelFunc a plain function.
type Model = model.Model

// Inputs may be implemented by a Model to say how many of a batch's tensors, counted from the first, are
// inputs; the others are labels.
type Inputs = model.Inputs

// Loss computes the scalar to minimise from the model's outputs and a batch's labels.
type Loss = model.Loss

// LossModel is a Model with a loss of its own, which is used if no other is given.
type LossModel = model.LossModel

// Metric is a measure of quality: a numerator and a denominator that are summed over all batches.
type Metric = fit.Metric

// Loader returns batches by index. An epoch has Len batches, and indices continue over epochs. data.NewLoader
// and data.Tokens make loaders.
type Loader = fit.Loader

// CrossEntropy returns the mean cross-entropy of the first output (logits) and the first labels. Labels of
// -100 are ignored.
func CrossEntropy(outputs, labels []*Tensor) *Tensor { return model.CrossEntropy(outputs, labels) }

// MeanSquares returns the mean squared error of the first output and the first labels.
func MeanSquares(outputs, labels []*Tensor) *Tensor { return model.MeanSquares(outputs, labels) }

// Accuracy returns the metric of how often the largest logit of the first output is the label. Negative
// labels are ignored.
func Accuracy() Metric { return model.Accuracy() }

// ModelFunc returns a model made of parameters and a function that computes with them.
func ModelFunc(params []*nn.Param, forward func(inputs []*Tensor) []*Tensor) Model {
	return model.Func(params, forward)
}

// Language adapts a language model: token ids in, logits out, next-token cross-entropy as its loss.
// data.Tokens makes its batches.
func Language(m models.Model) Model { return model.Language(m) }

// Arrange returns a model prepared for a strategy and a sequence length. Under context parallelism, attention
// runs on split sequences as Strategy.Context says, and sequences are reordered to balance the work of the
// devices. Parameters and losses are unchanged. The strings explain what could not be done.
func Arrange(m models.Model, s Strategy, seq int) (models.Model, []string, error) {
	return forecast.Arrange(m, s, seq)
}

// Parallel is a model with a parallelization plan, accepted by ToStatic, Engine and TrainerConfig.Parallel.
type Parallel = model.Parallel

// Parallelize checks a plan against the names of a model's layers and attaches it. No data moves: ToStatic,
// Engine and Trainer build their programs from the plan.
func Parallelize(m Model, optimizer optim.Optimizer, plan parallel.Plan) (*Parallel, error) {
	return model.Parallelize(m, optimizer, plan)
}
