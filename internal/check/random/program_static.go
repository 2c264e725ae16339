package random

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// written is the program as a user's model: its parameters have their requested layouts, and its forward pass
// annotates its values.
type written struct {
	*Annotated
	list []*nn.Param
}

func (m *written) Params() []*nn.Param { return m.list }

// Inputs returns all of a batch: the loss is computed in the forward pass.
func (m *written) Inputs() int { return len(m.Annotated.Inputs) }

func (m *written) Forward(in ...*op.Tensor) []*op.Tensor {
	v, err := m.forward(in, nn.Values(m.list), m.lay)
	if err != nil {
		return []*op.Tensor{ir.Invalid(in[0].Scope(), err)}
	}
	return v[len(v)-1:]
}

// batches provides a program's batches as a loader.
type batches struct{ *Annotated }

func (b batches) Len() int { return programSteps }

func (b batches) Batch(i int) ([]array.Array, error) { return b.batch(i), nil }

// Static trains the program compiled, with AdamW; gradients are computed from the parameters' change in a
// step of SGD.
func (p *Annotated) Static() (*Trained, error) {
	t, err := p.compiled(&galley.Optimizer{Optimizer: p.adamW(), Schedule: optim.Constant{LR: 1e-2}},
		programSteps, nil)
	if err != nil {
		return nil, err
	}
	once, err := p.compiled(&galley.Optimizer{Optimizer: optim.SGD{}, Schedule: optim.Constant{LR: 1}}, 1, nil)
	if err != nil {
		return nil, err
	}
	t.Grads, err = p.taken(once.Params)
	return t, err
}

// taken returns the difference between the initial values of parameters and those after.
func (p *Annotated) taken(after []array.Array) ([]array.Array, error) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	params, err := p.params(d.NewSession())
	if err != nil {
		return nil, err
	}
	before, err := readParams(params, func(x *nn.Param) *op.Tensor { return x.Value })
	if err != nil {
		return nil, err
	}
	for i, a := range before {
		g := array.New(array.F64, a.Shape()...)
		for k := range a.Len() {
			g.Set(k, a.At(k)-after[i].At(k))
		}
		before[i] = g
	}
	return before, nil
}

// compiled trains the program for some steps by ToStatic.
func (p *Annotated) compiled(o optim.Optimizer, steps int, s *galley.Strategy) (*Trained, error) {
	host := galley.CPU(galley.Config{Threads: 1})
	defer host.Close()
	w, err := dtensor.NewWorld(host, p.Devices)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	params, err := p.laidParams(w)
	if err != nil {
		return nil, err
	}
	model := &written{p, params}
	loss := func(out, _ []*op.Tensor) *op.Tensor { return out[0] }
	d, err := galley.ToStatic(model, batches{p}, loss, o, s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if p.changed != nil {
		p.changed(p)
	}
	zero := 0
	if s != nil {
		zero = p.Asked.Zero
	}
	if err := p.inPlan(d, zero); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	t := &Trained{}
	for i := range steps {
		r, err := d.Run(context.Background(), p.batch(i)...)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		t.Losses = append(t.Losses, r.Loss)
	}
	if _, err := d.Params(); err != nil {
		return nil, err
	}
	t.Params, err = readParams(params, func(x *nn.Param) *op.Tensor { return x.Value })
	return t, err
}
