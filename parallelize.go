package galley

import (
	"fmt"

	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// Parallel is a model with a plan: ToStatic, Engine and TrainerConfig.Parallel take it.
type Parallel struct {
	Model
	// Optimizer is as it was given to Parallelize.
	Optimizer optim.Optimizer
	Strategy  *Strategy
	// Annotations is what was asked for parameters by name.
	Annotations []Annotation
	layers      *layout.Layers
}

// Inputs is that of the model.
func (p *Parallel) Inputs() int {
	if i, ok := p.Model.(Inputs); ok {
		return i.Inputs()
	}
	return 0
}

// Parallelize checks a plan against the names of a model's layers. Nothing is moved: ToStatic, Engine and the
// Trainer build their programs by it.
func Parallelize(model Model, optimizer optim.Optimizer, plan parallel.Plan) (*Parallel, error) {
	if model == nil || len(model.Params()) == 0 {
		return nil, fmt.Errorf("parallelize: model has no parameters: make its layers with one nn.Init and return its Params()")
	}
	layers, err := plan.Bind(model.Params())
	if layers == nil {
		return nil, err
	}
	return &Parallel{Model: model, Optimizer: optimizer, Strategy: &plan.Strategy, Annotations: plan.Annotations,
		layers: layers}, err
}
