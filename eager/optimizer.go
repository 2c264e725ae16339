package eager

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Config configures an Optimizer.
type Config struct {
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	// Sharding is the ZeRO stage, over an axis of the meshes that parameters are on; nil shards nothing.
	Sharding optim.ShardingStage
	// SkipUnreached leaves parameters without a gradient unchanged, as PyTorch does. Without it they are an
	// error, since they were usually forgotten.
	SkipUnreached bool
}

// Configured is an optimizer that carries its own config, as galley.Optimizer does.
type Configured interface {
	EagerConfig() (optim.Optimizer, Config, error)
}

// Optimizer updates parameters with the gradients that Backward has accumulated on them.
type Optimizer struct {
	params []*nn.Param
	by     optim.Optimizer
	c      Config
	scope  scope
	// states has an entry for each parameter that is trained, in order.
	states []*state
	// steps counts the steps taken, updates those that changed the parameters.
	steps, updates int
}

// scope is an eager session on one device or on many.
type scope interface {
	op.Scope
	Tensor(a array.Array) *op.Tensor
}

// state is what the optimizer keeps for one parameter.
type state struct {
	param *nn.Param
	slots []*op.Tensor
	at    places
}

// NewOptimizer creates an optimizer with zero state. Frozen parameters and buffers are left alone. If opt is
// Configured, as galley.ShardOptimizer's result is, its config fills in what c leaves out.
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
	return o.checkSharding()
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

// Steps returns the number of steps taken, including those that a Scaler skipped.
func (o *Optimizer) Steps() int { return o.steps }

// Params returns the parameters that the optimizer was created with.
func (o *Optimizer) Params() []*nn.Param { return o.params }

// Slots returns the optimizer state of the named parameter, or nil if it is not trained.
func (o *Optimizer) Slots(name string) []*op.Tensor {
	for _, s := range o.states {
		if s.param.Name == name {
			return s.slots
		}
	}
	return nil
}

// ClearGrad drops the gradients of all parameters.
func (o *Optimizer) ClearGrad() {
	for _, p := range o.params {
		p.ClearGrad()
	}
}

// Train switches the parameters' models to training mode until restore is called, like PyTorch's
// model.train(): dropout draws a new mask for each step, the same as in a compiled step.
func (o *Optimizer) Train() (restore func()) {
	return nn.Train(o.params, func() *op.Tensor { return o.scope.Tensor(array.Scalar(int64(o.updates + 1))) })
}
