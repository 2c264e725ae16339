package model

import (
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
	"github.com/galley-ml/galley/strategy"
)

// Parallel is a model with a parallelization plan, accepted by ToStatic, Engine and TrainerConfig.Parallel.
type Parallel struct {
	Model
	// Optimizer is the one given to Parallelize.
	Optimizer optim.Optimizer
	Strategy  *strategy.Strategy
	// Annotations has the shardings requested for parameters by name.
	Annotations []mesh.Annotation
	layers      *layout.Layers
}

// Inputs returns the number of inputs of the model.
func (p *Parallel) Inputs() int {
	if i, ok := p.Model.(Inputs); ok {
		return i.Inputs()
	}
	return 0
}

// Layers returns the shardings that the plan requests within layers, or nil.
func (p *Parallel) Layers() *layout.Layers {
	if p == nil {
		return nil
	}
	return p.layers
}

// WithLayers returns the model with shardings for the values computed within layers.
func (p *Parallel) WithLayers(l *layout.Layers) *Parallel {
	p.layers = l
	return p
}

// Parallelize checks a plan against the names of a model's layers and attaches it. No data moves: ToStatic,
// Engine and Trainer build their programs from the plan.
func Parallelize(m Model, optimizer optim.Optimizer, plan parallel.Plan) (*Parallel, error) {
	if err := Check("parallelize", m); err != nil {
		return nil, err
	}
	layers, err := plan.Bind(m.Params())
	if layers == nil {
		return nil, err
	}
	return &Parallel{Model: m, Optimizer: optimizer, Strategy: &plan.Strategy, Annotations: plan.Annotations,
		layers: layers}, err
}
