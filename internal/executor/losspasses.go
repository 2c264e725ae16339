package executor

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// forwardPasses returns the passes that rewrite the program of the loss before it is differentiated.
func (c Config) forwardPasses() []func(*ir.Func) (*ir.Func, error) {
	var list []func(*ir.Func) (*ir.Func, error)
	chosen := c.Passes()
	if c.Backend != nil && !c.splitsTensors() && !chosen.Explicit && chosen.Has(pass.JoinName) {
		// One large product uses an accelerator better than three; on the host it gains nothing. Sharded weights
		// would have to be gathered first.
		list = append(list, pass.Join, pass.Fold)
	}
	if len(chosen.At(pass.OnLoss)) > 0 {
		list = append(list, func(p *ir.Func) (*ir.Func, error) { return chosen.Run(pass.OnLoss, p) })
	}
	if c.Compute != array.Invalid {
		list = append(list, func(p *ir.Func) (*ir.Func, error) { return pass.Autocast(p, c.Compute) })
	}
	return list
}

func (c Config) splitsTensors() bool { return c.Strategy != nil && c.Strategy.TP > 1 }

// rewrittenLoss traces the loss by itself, runs the passes on it and applies the result to the tensors, eager
// or traced.
func (c Config) rewrittenLoss(passes []func(*ir.Func) (*ir.Func, error), params, batch []*op.Tensor,
	step func() *op.Tensor) *op.Tensor {
	args := slices.Concat(params, batch)
	b := ir.NewBuilder("loss")
	in := make([]*op.Tensor, len(args))
	for i, a := range args {
		if a.Err() != nil {
			return a
		}
		in[i] = b.Param(a.Name(), a.Type())
	}
	number := NewStepNumber(b)
	loss := c.plainLoss(in[:len(params)], in[len(params):], number.Tensor)
	if loss == nil || loss.Err() != nil {
		return loss
	}
	if number.x != nil {
		args = append(args, step())
	}
	p, err := b.Build(loss)
	for _, rewrite := range passes {
		if err == nil {
			p, err = rewrite(p)
		}
	}
	if err != nil {
		return ir.Invalid(args[0].Scope(), err)
	}
	return p.Replay(args[0].Scope(), append(args, p.Captures()...), nil)[0]
}
