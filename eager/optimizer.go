package eager

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Config is what goes along with an optimizer.
type Config struct {
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	// Sharding splits the optimizer's memory, and more, over an axis of the meshes that parameters are on; nil
	// does not.
	Sharding optim.ShardingStage
	// SkipUnreached leaves parameters as they are that no gradient has reached, as PyTorch does. Otherwise they
	// are an error: mostly they were forgotten.
	SkipUnreached bool
}

// Configured is an optimizer that brings its config along, as a galley.Optimizer does.
type Configured interface {
	EagerConfig() (optim.Optimizer, Config, error)
}

// Optimizer updates parameters by the gradients that Backward has left on them.
type Optimizer struct {
	params []*nn.Param
	by     optim.Optimizer
	c      Config
	scope  scope
	// states is of the parameters that training changes, in order.
	states []*state
	// steps is how many steps were taken, updates how many of them changed the parameters.
	steps, updates int
}

// scope is an eager session of one device or of many.
type scope interface {
	op.Scope
	Tensor(a array.Array) *op.Tensor
}

// state is what the optimizer knows of a parameter.
type state struct {
	param *nn.Param
	slots []*op.Tensor
	at    places
}

// NewOptimizer makes an optimizer of parameters with its memory at zero. Frozen parameters and buffers stay
// as they are. Of a Configured optimizer, such as galley.ShardOptimizer makes, the config counts where c says
// nothing.
func NewOptimizer(params []*nn.Param, o optim.Optimizer, c Config) (*Optimizer, error) {
	if f, ok := o.(Configured); ok {
		inner, own, err := f.EagerConfig()
		if err != nil {
			return nil, err
		}
		o, c = inner, c.or(own)
	}
	if o == nil {
		return nil, fmt.Errorf("optimizer: got none: optim.AdamW{} has useful defaults")
	}
	if c.Schedule == nil {
		c.Schedule = optim.Constant{LR: 1e-3}
	}
	if c.ClipNorm < 0 {
		return nil, fmt.Errorf("optimizer: clip norm: got %v, want more than 0, or 0 for none", c.ClipNorm)
	}
	if err := optim.Check(o, nn.Names(params)); err != nil {
		return nil, fmt.Errorf("optimizer: %w", err)
	}
	s := &Optimizer{params: params, by: o, c: c}
	return s, s.start()
}

// or returns c with what it leaves out as other says.
func (c Config) or(other Config) Config {
	if c.Schedule == nil {
		c.Schedule = other.Schedule
	}
	if c.ClipNorm == 0 {
		c.ClipNorm = other.ClipNorm
	}
	if c.Sharding == nil {
		c.Sharding = other.Sharding
	}
	c.SkipUnreached = c.SkipUnreached || other.SkipUnreached
	return c
}

// start finds the layout of every parameter and makes its slots.
func (o *Optimizer) start() error {
	for _, p := range nn.Trainable(o.params) {
		if err := o.adopt(p); err != nil {
			return fmt.Errorf("optimizer: parameter %q: %w", p.Name, err)
		}
	}
	if len(o.states) == 0 {
		return fmt.Errorf("optimizer: no parameter to train among %d: give it the model's Params()", len(o.params))
	}
	return nil
}

func (o *Optimizer) adopt(p *nn.Param) error {
	if p.Value == nil {
		return fmt.Errorf("it has no value: make the model with nn.Config{Scope: session}")
	}
	if err := p.Value.Err(); err != nil {
		return err
	}
	s, ok := p.Value.Scope().(scope)
	switch {
	case !ok:
		return fmt.Errorf("it is traced: make the optimizer outside of the trace")
	case o.scope != nil && o.scope != s:
		return fmt.Errorf("it is of another session than the first parameter: make the model with one scope")
	case !p.Value.Tracked():
		return fmt.Errorf("it is not tracked: set Value to Value.Track(), or freeze it with nn.Freeze")
	}
	o.scope = s
	at, err := placesOf(p, o.c.Sharding)
	if err != nil {
		return err
	}
	st := &state{param: p, at: at}
	for _, t := range optim.SlotTypes(o.by, p.Name, p.Type) {
		z, err := o.zeros(t, st.at.slot(p.Type, t))
		if err != nil {
			return err
		}
		st.slots = append(st.slots, z)
	}
	o.states = append(o.states, st)
	return st.rest(p.Value)
}

// LR returns the learning rate of the next step.
func (o *Optimizer) LR() float64 { return o.c.Schedule.At(o.steps) }

// Steps returns how many steps were taken, those included that a Scaler skipped.
func (o *Optimizer) Steps() int { return o.steps }

// Params returns what the optimizer was made of.
func (o *Optimizer) Params() []*nn.Param { return o.params }

// Slots returns what the optimizer remembers of the parameter of a name, nil where it does not train it.
func (o *Optimizer) Slots(name string) []*op.Tensor {
	for _, s := range o.states {
		if s.param.Name == name {
			return s.slots
		}
	}
	return nil
}

// ClearGrad forgets the gradients of all parameters.
func (o *Optimizer) ClearGrad() {
	for _, p := range o.params {
		p.ClearGrad()
	}
}

// Train lets the parameters' models train until restore is called, as PyTorch's model.train() does: Dropout
// draws by the number of the step that comes, as in a compiled step.
func (o *Optimizer) Train() (restore func()) {
	return nn.Train(o.params, func() *op.Tensor { return o.scope.Tensor(array.Scalar(int64(o.updates + 1))) })
}
