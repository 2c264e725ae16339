package optim

// LossScale keeps small gradients of f16 from vanishing: losses are multiplied by a power of two, which is
// halved when gradients overflow, below 1 too, and doubled after many steps that did not.
type LossScale struct {
	Scale float64
	// Good is how many steps in a row did not overflow.
	Good int
}

const (
	firstLossScale = 1 << 16
	lossScaleAfter = 2000
	// leastLossScale is far below what any gradient needs that is a number at all.
	leastLossScale = 0x1p-40
)

// NewLossScale returns the scale of the first step.
func NewLossScale() LossScale { return LossScale{Scale: firstLossScale} }

// Next returns the scale after a step whose gradients overflowed or did not.
func (l LossScale) Next(overflowed bool) LossScale {
	switch {
	case overflowed:
		return LossScale{Scale: max(l.Scale/2, leastLossScale)}
	case l.Good+1 == lossScaleAfter:
		return LossScale{Scale: l.Scale * 2}
	}
	return LossScale{l.Scale, l.Good + 1}
}
