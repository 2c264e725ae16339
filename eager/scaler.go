package eager

import (
	"fmt"

	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// Scaler keeps small gradients of f16 from vanishing, as PyTorch's GradScaler does and as compiled steps do:
// losses are multiplied by a power of two. A step whose gradients overflow is skipped and halves it; it is
// doubled after 2,000 steps that did not. bf16 needs none.
//
//	loss := session.Autocast(array.F16, func() *op.Tensor { return model.Loss(x, y) })
//	err := scaler.Scale(loss).Backward()
//	skipped, err := scaler.Step(opt)
//	opt.ClearGrad()
type Scaler struct {
	scale optim.LossScale
	// losses has the losses since the last step: if one of them is not finite, the scale is not the cause.
	losses []*op.Tensor
}

// NewScaler returns a scaler with an initial scale of 65,536.
func NewScaler() *Scaler { return &Scaler{scale: optim.NewLossScale()} }

// Value returns the scale of the next loss.
func (s *Scaler) Value() float64 { return s.scale.Scale }

// Scale returns the loss times the scale, for Backward. It is at least f32, so that it does not overflow
// itself.
func (s *Scaler) Scale(loss *op.Tensor) *op.Tensor {
	if loss == nil || loss.Err() != nil {
		return loss
	}
	s.losses = append(s.losses, loss.Detach())
	return op.MulScalar(op.Cast(loss, loss.DType().Compute()), s.scale.Scale)
}

// Step unscales the gradients and takes an optimizer step. If they overflowed, it skips the step, halves the
// scale and returns true.
func (s *Scaler) Step(o *Optimizer) (skipped bool, err error) {
	if len(s.losses) == 0 {
		return false, place(fmt.Errorf("no loss was scaled since the last step: " +
			"call scaler.Scale(loss).Backward()"))
	}
	losses := s.losses
	s.losses = nil
	for _, l := range losses {
		a, err := runtime.Read(l)
		if err != nil {
			return false, err
		}
		if !finite(a.At(0)) {
			return false, place(fmt.Errorf("the loss is %v: no scale mends that: lower the learning rate, "+
				"or compute in bf16", a.At(0)))
		}
	}
	grows := s.scale.Scale > 1
	if skipped, err = o.step(s.scale.Scale); err == nil && grows {
		s.scale = s.scale.Next(skipped)
	}
	return skipped, err
}
