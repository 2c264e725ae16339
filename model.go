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

// Model is what is trained: parameters, and what they make of inputs. Language makes one of a language model,
// ModelFunc one of a function.
type Model = model.Model

// Inputs may be implemented by a Model: how many of a batch's tensors, the first ones, are its inputs.
type Inputs = model.Inputs

// Loss is the number to make small, a scalar, made of what a model answers and of a batch's labels.
type Loss = model.Loss

// LossModel is a Model that knows its loss: it is taken where no other is given.
type LossModel = model.LossModel

// Metric is a number that tells how good a model is: the quotient of two sums over all batches.
type Metric = fit.Metric

// Loader is batches by number: Len of them are an epoch, and they go on over epochs. data.NewLoader and
// data.Tokens make loaders.
type Loader = fit.Loader

// CrossEntropy returns the mean cross-entropy of the first output, as logits, and the first labels; a label
// of
// -100 does not count.
func CrossEntropy(outputs, labels []*Tensor) *Tensor { return model.CrossEntropy(outputs, labels) }

// MeanSquares returns the mean of squared differences of the first output and the first labels.
func MeanSquares(outputs, labels []*Tensor) *Tensor { return model.MeanSquares(outputs, labels) }

// Accuracy returns the share of labels that the first output, as logits, rates highest; a label below zero
// does not count.
func Accuracy() Metric { return model.Accuracy() }

// ModelFunc returns a model of parameters and a function that computes with them.
func ModelFunc(params []*nn.Param, forward func(inputs []*Tensor) []*Tensor) Model {
	return model.Func(params, forward)
}

// Language returns a language model as a Model: ids in, logits out. Its own loss is the cross-entropy of the
// next tokens, and data.Tokens makes its batches.
func Language(m models.Model) Model { return model.Language(m) }

// Arrange returns a model as a strategy trains it on sequences of a length: with context parallelism,
// attention meets split sequences as Context says, and sequences are in an order in which all devices have
// equal work. It has the same parameters and the same losses; what cannot be had is told with the reason.
func Arrange(m models.Model, s Strategy, seq int) (models.Model, []string, error) {
	return forecast.Arrange(m, s, seq)
}

// Parallel is a model with a plan: ToStatic, Engine and TrainerConfig.Parallel take it.
type Parallel = model.Parallel

// Parallelize checks a plan against the names of a model's layers. Nothing is moved: ToStatic, Engine and the
// Trainer build their programs by it.
func Parallelize(m Model, optimizer optim.Optimizer, plan parallel.Plan) (*Parallel, error) {
	return model.Parallelize(m, optimizer, plan)
}
