package op

import (
	"errors"

	"github.com/galley-ml/galley/internal/ir"
)

// OnGrad returns x and registers a hook: when a gradient passes through it, f is called with the gradient of
// x, as PyTorch's register_hook does. A non-nil result replaces the gradient. It is for eager tensors only,
// because a traced program has no data to look at.
func OnGrad(x *Tensor, f func(dy *Tensor) *Tensor) *Tensor {
	if x.Err() != nil {
		return x
	}
	if _, traced := x.Scope().(*ir.Builder); traced {
		err := errors.New("a hook is called with data, which a traced program has none of: train with Mode Eager")
		return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "on_grad", Err: err})
	}
	return apply1(onGrad{hook: &f}, x)
}

// onGrad cannot be part of a program, so it is not in All.
type onGrad struct {
	identity
	hook *func(dy *Tensor) *Tensor
}

func (onGrad) Name() string { return "on_grad" }

// VJP calls the hook.
func (o onGrad) VJP(_, _, dy []*Tensor) []*Tensor {
	if d := (*o.hook)(dy[0]); d != nil {
		return []*Tensor{d}
	}
	return dy
}
