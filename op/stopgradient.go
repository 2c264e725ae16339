package op

// StopGradient returns x as a constant with respect to gradients.
func StopGradient(x *Tensor) *Tensor { return apply1(stopGradient{}, x) }

type stopGradient struct{ identity }

func (stopGradient) Name() string                    { return "stop_gradient" }
func (stopGradient) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (stopGradient) NoGradient() string              { return "stopping the gradient is what it is for" }

// Fold keeps the op, because passes also run before gradients are taken.
func (stopGradient) Fold([]*Tensor) *Tensor { return nil }

func (stopGradient) Loop(_, _ []Type) (Loop, bool) { return sameLoop() }
