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
	// Weights is by parameter, Inputs by tensor of the batch; the data axes split the rows of the batch in
	// addition.
	Weights, Inputs []mesh.Spec
}

// placed reports whether a strategy has no degrees, because they follow from the meshes of the model's
// tensors.
func placed(s strategy.Strategy) bool { return s.DP == 0 }

// Annotations returns the layouts of the parameters by name, for all that are not on a mesh, so that no plan
// by layer names applies.
func (c Candidate) Annotations(params []*nn.Param) []mesh.Annotation {
	if c.Strategy.Branches > 1 || placed(c.Strategy) {
		return nil // nothing is split, and the devices are found by the executor or given
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

// quoted returns a pattern that matches only the name.
func quoted(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// Config returns the run's configuration with the candidate applied.
func (c Candidate) Config(run executor.Config) executor.Config {
	s := c.Strategy
	run.Strategy, run.Annotations, run.Layers = &s, c.Annotations(run.Params), c.Layers(len(run.Params))
	return run
}

// Layers returns the layout of the batch, for a model with the given number of parameters; nil for branches,
// or if the model's meshes determine it.
func (c Candidate) Layers(params int) *layout.Layers {
	if c.Strategy.Branches > 1 || placed(c.Strategy) {
		return nil
	}
	return layout.Found(params, c.Inputs)
}

// key returns a text that identifies the candidate.
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
