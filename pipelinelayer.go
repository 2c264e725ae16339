package galley

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Layer is one layer of a pipeline: what it makes of what the layer before hands on.
type Layer interface {
	Forward(x *Tensor) *Tensor
}

// LayerFunc is a function as a Layer, such as an activation.
type LayerFunc func(x *Tensor) *Tensor

// Forward calls f.
func (f LayerFunc) Forward(x *Tensor) *Tensor { return f(x) }

// Desc describes a layer of a pipeline: a LayerDesc or a SharedLayerDesc.
type Desc interface{ describe() desc }

// LayerDesc describes a layer that is made when its pipeline is.
type LayerDesc struct {
	// Name is the layer's place in its parameters' names; empty is its number.
	Name string
	// New makes the layer, with its parameters below in.
	New func(in *nn.Init) Layer
}

// SharedLayerDesc describes a layer that appears more than once with the same parameters, such as an
// embedding that is the head, too. Its gradients are summed over all stages where it appears.
type SharedLayerDesc struct {
	// Key is what the appearances have in common, and the layer's place in its parameters' names. The first
	// makes the layer.
	Key string
	New func(in *nn.Init) Layer
	// Apply is what this appearance does with the layer; nil is its Forward.
	Apply func(l Layer, x *Tensor) *Tensor
}

// desc is either kind.
type desc struct {
	name, key string
	new       func(in *nn.Init) Layer
	apply     func(l Layer, x *Tensor) *Tensor
}

func (d LayerDesc) describe() desc { return desc{name: d.Name, new: d.New} }

func (d SharedLayerDesc) describe() desc {
	return desc{name: d.Key, key: d.Key, new: d.New, apply: d.Apply}
}

// PipelineConfig says what a pipeline is made of.
type PipelineConfig struct {
	Layers []Desc
	// Init makes the parameters: its Scope is a session of a device.
	Init nn.Config
	// Loss is of what the last layer makes and a batch's labels.
	Loss Loss
	// Optimizer's zero value is AdamW with its defaults; an *Optimizer brings a schedule.
	Optimizer optim.Optimizer
	// Strategy says how many stages there are, and the rest. Nil is one device.
	Strategy *Strategy
	// Boundaries is the number of the layer with which each stage but the first begins; nil cuts evenly.
	Boundaries []int
}

// PipelineLayer is a model of layers one after the other, cut into stages.
type PipelineLayer struct {
	config  PipelineConfig
	init    *nn.Init
	layers  []pipelineLayer
	counts  []int // the layers of each stage; nil is one stage
	trainer *Trainer
	eval    *evaluation
}

type pipelineLayer struct {
	name  string
	layer Layer
	apply func(l Layer, x *Tensor) *Tensor
}

// NewPipelineLayer makes the layers and spreads them over the stages of the strategy. Close ends the devices.
func NewPipelineLayer(c PipelineConfig) (*PipelineLayer, error) {
	p := &PipelineLayer{config: c, init: nn.NewInit(c.Init)}
	if err := p.build(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	if c.Loss == nil {
		return nil, fmt.Errorf("pipeline: want a loss, such as galley.CrossEntropy")
	}
	if c.Optimizer == nil {
		c.Optimizer = optim.AdamW{}
	}
	s, err := p.strategy()
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	_, config, err := modelConfig("pipeline", p, c.Loss, c.Optimizer, s)
	if err != nil {
		return nil, err
	}
	if p.trainer, err = NewTrainer(config); err != nil {
		return nil, err
	}
	p.eval = newEvaluation(p.trainer, p, c.Loss, nil)
	return p, nil
}

// build makes the layers, shared ones once.
func (p *PipelineLayer) build() error {
	shared := map[string]Layer{}
	for i, d := range p.config.Layers {
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
		p.layers = append(p.layers, pipelineLayer{what.name, l, what.apply})
	}
	if len(p.layers) == 0 {
		return fmt.Errorf("want a layer or more")
	}
	return p.init.Err()
}

// strategy is the config's, with the boundaries as numbers of layers.
func (p *PipelineLayer) strategy() (*Strategy, error) {
	c := p.config
	if c.Strategy == nil {
		if c.Boundaries != nil {
			return nil, fmt.Errorf("boundaries %v: want a strategy with PP: %d", c.Boundaries, len(c.Boundaries)+1)
		}
		return nil, nil
	}
	s := *c.Strategy
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
	case c.Boundaries == nil:
		if p.counts = s.Layers; p.counts == nil {
			p.counts = layout.Evenly(len(p.layers), n)
		}
		return &s, nil
	case s.Layers != nil:
		return nil, fmt.Errorf("both Boundaries and Strategy.Layers say where stages begin: leave one of them out")
	case len(c.Boundaries) != n-1:
		return nil, fmt.Errorf("boundaries %v make %d stages: the schedule has %d: want %d boundaries",
			c.Boundaries, len(c.Boundaries)+1, n, n-1)
	}
	p.counts, err = p.between(c.Boundaries)
	s.Layers = p.counts
	return &s, err
}

// between is how many layers lie between boundaries.
func (p *PipelineLayer) between(boundaries []int) (list []int, err error) {
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

// Params is the layers' parameters; shared ones appear once.
func (p *PipelineLayer) Params() []*nn.Param { return p.init.Params() }

// Inputs is one: the rest of a batch is labels.
func (p *PipelineLayer) Inputs() int { return 1 }

// Forward applies the layers in order. The marks between them are where stages may begin.
func (p *PipelineLayer) Forward(inputs ...*Tensor) []*Tensor {
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
			return []*Tensor{ir.Invalid(inputs[0].Scope(), &ir.Error{Op: "pipeline", Err: err})}
		}
	}
	return []*Tensor{x}
}

// Stages is the number of the first layer of each stage.
func (p *PipelineLayer) Stages() []int {
	list := []int{0}
	for _, n := range p.counts[:max(0, len(p.counts)-1)] {
		list = append(list, list[len(list)-1]+n)
	}
	return list
}

// TrainBatch trains on one batch, an input and its labels, cut into micro-batches as the strategy says.
func (p *PipelineLayer) TrainBatch(ctx context.Context, batch ...array.Array) (Metrics, error) {
	if err := checkBatch(ctx, batch); err != nil {
		return Metrics{}, err
	}
	return p.trainer.Step(batch...)
}

// EvalBatch is the loss of one batch; nothing is changed.
func (p *PipelineLayer) EvalBatch(ctx context.Context, batch ...array.Array) (float64, error) {
	return p.eval.batch(ctx, batch)
}

// Trainer is what trains the layers.
func (p *PipelineLayer) Trainer() *Trainer { return p.trainer }

// Close ends the devices.
func (p *PipelineLayer) Close() error { return p.trainer.Close() }
