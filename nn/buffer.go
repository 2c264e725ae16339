package nn

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Buffer creates a model state tensor that is not updated by the optimizer but by layers, with Add, in
// training, like PyTorch's buffers. It is included in Params, so that trainers, checkpoints and SaveState
// handle it, and is kept in f32 if parameters have 16 bits.
func (in *Init) Buffer(name string, shape array.Shape, first Initializer) *Param {
	dtype := in.config.DType
	in.config.DType = dtype.Compute()
	defer func() { in.config.DType = dtype }()
	p := in.Param(name, shape, first)
	p.Buffer = true
	if p.Value != nil {
		p.Value = p.Value.Detach()
	}
	return p
}

// Training reports whether the model is in training mode.
func (p *Param) Training() bool { return p.mode != nil && p.mode.step != nil }

// Add adds change to a buffer in training mode and returns x, which must be part of the loss computation. In
// a trainer's step the buffer is updated at the end: reads within the step see the old value, several changes
// add up, and each micro-batch contributes in proportion to its rows. Without a trainer an eager buffer is
// updated immediately. A frozen buffer does not change.
func (p *Param) Add(x, change *op.Tensor) *op.Tensor {
	if !p.Training() || p.Fixed || x.Err() != nil || change.Err() != nil {
		return x
	}
	change = op.StopGradient(op.Cast(change, p.Type.DType))
	switch {
	case p.mode.bound[p.Name]:
		return op.UpdateBuffer(x, p.Value, change, p.Name)
	case p.mode.bound != nil:
		err := fmt.Errorf("buffer %q is not among the trainer's Params: give it all of the model's, or freeze it",
			p.Name)
		return ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "buffer", Err: err})
	}
	if _, traced := change.Scope().(*ir.Builder); !traced {
		p.Value = op.Add(p.Value, change).Detach()
	}
	return x
}
