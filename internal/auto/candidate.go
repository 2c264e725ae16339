package auto

import (
	"strings"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// Candidate is one way to train: a strategy, and how weights and the batch are split along its tensor axis.
type Candidate struct {
	Strategy strategy.Strategy
	// Weights is by parameter, Inputs by tensor of the batch, whose rows the data axes split besides.
	Weights, Inputs []mesh.Spec
}

// placed reports whether a strategy has no degrees: the meshes that the model's tensors are on say them.
func placed(s strategy.Strategy) bool { return s.DP == 0 }

// Annotations returns the layout of the parameters by name: all that are on no mesh, so that no plan by names
// has a say.
func (c Candidate) Annotations(params []*nn.Param) []mesh.Annotation {
	if c.Strategy.Branches > 1 || placed(c.Strategy) {
		return nil // everything is whole, and where it lies is found, or said
	}
	var list []mesh.Annotation
	for i, p := range params {
		if _, held := heldOn(p); held {
			continue
		}
		list = append(list, mesh.Annotation{Pattern: quoted(p.Name), Sharding: mesh.Closed(c.Weights[i])})
	}
	return list
}

// quoted returns a name as a pattern that matches it alone.
func quoted(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// Config returns a run as the candidate trains it.
func (c Candidate) Config(run executor.Config) executor.Config {
	s := c.Strategy
	run.Strategy, run.Annotations, run.Layers = &s, c.Annotations(run.Params), c.Layers(len(run.Params))
	return run
}

// Layers returns the layout of the batch, for a model of so many parameters; nil where branches are found, or
// the model's meshes say it.
func (c Candidate) Layers(params int) *layout.Layers {
	if c.Strategy.Branches > 1 || placed(c.Strategy) {
		return nil
	}
	return layout.Found(params, c.Inputs)
}

// key tells candidates apart.
func (c Candidate) key() string {
	var b strings.Builder
	b.WriteString(c.Strategy.Line())
	for _, list := range [][]mesh.Spec{c.Weights, c.Inputs} {
		b.WriteByte('|')
		for _, s := range list {
			b.WriteString(s.String())
		}
	}
	return b.String()
}

// splits reports whether anything is split along the tensor axis.
func (c Candidate) splits() bool {
	for _, list := range [][]mesh.Spec{c.Weights, c.Inputs} {
		for _, s := range list {
			if len(s.Used()) > 0 {
				return true
			}
		}
	}
	return false
}
