package nn

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Buffer makes a tensor of the model's state that is no parameter of an optimizer: layers change it by Add
// while their model trains, as PyTorch's buffers. It is one of Params, so that trainers, checkpoints and
// SaveState have it; it is kept in float32 where parameters have 16 bits.
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

// Training reports whether the model trains: layers that do something else then ask.
func (p *Param) Training() bool { return p.mode != nil && p.mode.step != nil }

// Add adds change to a buffer while its model trains, and is x, which must be on the way to the loss. In a
// trainer's step the buffer is changed at the end: whoever reads it within the step has its value from
// before, several changes add up, and of micro-batches each has its share by its rows. Eagerly, without a
// trainer, it is changed at once. A frozen buffer stays as it is.
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
