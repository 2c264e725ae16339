package parallel

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Layer is one layer of a pipeline: a function of the output of the layer before.
type Layer interface {
	Forward(x *op.Tensor) *op.Tensor
}

// LayerFunc adapts a function, such as an activation, to a Layer.
type LayerFunc func(x *op.Tensor) *op.Tensor

// Forward calls f.
func (f LayerFunc) Forward(x *op.Tensor) *op.Tensor { return f(x) }

// Desc describes a layer of a pipeline: a LayerDesc or a SharedLayerDesc.
type Desc interface{ describe() desc }

// LayerDesc describes a layer that is created together with its pipeline.
type LayerDesc struct {
	// Name is the prefix of the layer's parameter names; empty means its index.
	Name string
	// New creates the layer with parameters from in.
	New func(in *nn.Init) Layer
}

// SharedLayerDesc describes a layer that appears more than once with the same parameters, such as an
// embedding that is also the output head. Its gradients are summed over all stages where it appears.
type SharedLayerDesc struct {
	// Key identifies the shared layer and prefixes its parameter names. The first appearance creates it.
	Key string
	New func(in *nn.Init) Layer
	// Apply is what this appearance computes with the layer; nil means its Forward.
	Apply func(l Layer, x *op.Tensor) *op.Tensor
}

// desc is either kind.
type desc struct {
	name, key string
	new       func(in *nn.Init) Layer
	apply     func(l Layer, x *op.Tensor) *op.Tensor
}

func (d LayerDesc) describe() desc { return desc{name: d.Name, new: d.New} }

func (d SharedLayerDesc) describe() desc {
	return desc{name: d.Key, key: d.Key, new: d.New, apply: d.Apply}
}

// Pipeline is a sequential model that can be split into stages.
type Pipeline struct {
	init   *nn.Init
	layers []step
	counts []int // the layers of each stage; nil is one stage
}

// step is one appearance of a layer.
type step struct {
	name  string
	layer Layer
	apply func(l Layer, x *op.Tensor) *op.Tensor
}

// NewPipeline creates the layers, with parameters initialised by init.
func NewPipeline(layers []Desc, init nn.Config) (*Pipeline, error) {
	p := &Pipeline{init: nn.NewInit(init)}
	return p, p.build(layers)
}

// build makes the layers, shared ones once.
func (p *Pipeline) build(layers []Desc) error {
	shared := map[string]Layer{}
	for i, d := range layers {
		what := d.describe()
		if what.name == "" {
			what.name = strconv.Itoa(i)
		}
		l := shared[what.key]
		if what.key == "" || l == nil {
			if what.new == nil {
				return fmt.Errorf("layer %d, %q: want New, which makes it", i, what.name)
			}
			if l = what.new(p.init.At(what.name)); l == nil {
				return fmt.Errorf("layer %d, %q: New returned nil", i, what.name)
			}
		}
		if what.key != "" {
			shared[what.key] = l
		}
		p.layers = append(p.layers, step{what.name, l, what.apply})
	}
	if len(p.layers) == 0 {
		return fmt.Errorf("want a layer or more")
	}
	return p.init.Err()
}

// Cut assigns the layers to the stages of a strategy and returns the strategy with the number of layers per
// stage. boundaries has the index of the first layer of every stage but the first; nil splits evenly.
func (p *Pipeline) Cut(of *strategy.Strategy, boundaries []int) (*strategy.Strategy, error) {
	if of == nil {
		if boundaries != nil {
			return nil, fmt.Errorf("boundaries %v: want a strategy with PP: %d", boundaries, len(boundaries)+1)
		}
		return nil, nil
	}
	s := *of
	full, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	schedule, err := full.Pipeline()
	if err != nil {
		return nil, err
	}
	n := schedule.Stages
	switch {
	case n > len(p.layers):
		return nil, fmt.Errorf("%d layers cannot make %d stages: want pp·vpp of %d or less", len(p.layers), n,
			len(p.layers))
	case boundaries == nil:
		if p.counts = s.Layers; p.counts == nil {
			p.counts = layout.Evenly(len(p.layers), n)
		}
		return &s, nil
	case s.Layers != nil:
		return nil, fmt.Errorf("both Boundaries and Strategy.Layers say where stages begin: leave one of them out")
	case len(boundaries) != n-1:
		return nil, fmt.Errorf("boundaries %v make %d stages: the schedule has %d: want %d boundaries",
			boundaries, len(boundaries)+1, n, n-1)
	}
	p.counts, err = p.between(boundaries)
	s.Layers = p.counts
	return &s, err
}

// between returns the number of layers between boundaries.
func (p *Pipeline) between(boundaries []int) (list []int, err error) {
	at := 0
	for _, b := range append(slices.Clone(boundaries), len(p.layers)) {
		if b <= at || b > len(p.layers) {
			return nil, fmt.Errorf("boundaries %v: want growing numbers of layers from 1 to %d", boundaries,
				len(p.layers)-1)
		}
		list, at = append(list, b-at), b
	}
	return list, nil
}

// Params returns the layers' parameters; shared ones appear once.
func (p *Pipeline) Params() []*nn.Param { return p.init.Params() }

// Inputs returns 1: the rest of a batch is labels.
func (p *Pipeline) Inputs() int { return 1 }

// Forward applies the layers in order. It marks the places between them where stages may begin.
func (p *Pipeline) Forward(inputs ...*op.Tensor) []*op.Tensor {
	x := inputs[0]
	for i, l := range p.layers {
		x = op.Mark(x, nn.LayerMark(i))
		if l.apply != nil {
			x = l.apply(l.layer, x)
		} else {
			x = l.layer.Forward(x)
		}
		if x == nil {
			err := fmt.Errorf("layer %d, %q: got nil, want a tensor", i, l.name)
			return []*op.Tensor{ir.Invalid(inputs[0].Scope(), &ir.Error{Op: "pipeline", Err: err})}
		}
	}
	return []*op.Tensor{x}
}

// Stages returns the index of the first layer of each stage.
func (p *Pipeline) Stages() []int {
	list := []int{0}
	for _, n := range p.counts[:max(0, len(p.counts)-1)] {
		list = append(list, list[len(list)-1]+n)
	}
	return list
}
