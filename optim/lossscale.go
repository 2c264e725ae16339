package optim

// LossScale keeps small f16 gradients from underflowing: the loss is multiplied by a power of two, which is
// halved (also below 1) when gradients overflow and doubled after many steps without overflow.
type LossScale struct {
	Scale float64
	// Good counts the steps since the last overflow.
	Good int
}

const (
	firstLossScale = 1 << 16
	lossScaleAfter = 2000
	// leastLossScale is far below what finite gradients need.
	leastLossScale = 0x1p-40
)

// NewLossScale returns the initial scale.
func NewLossScale() LossScale { return LossScale{Scale: firstLossScale} }

// Next returns the scale after a step, given whether its gradients overflowed.
func (l LossScale) Next(overflowed bool) LossScale {
	switch {
	case overflowed:
		return LossScale{Scale: max(l.Scale/2, leastLossScale)}
	case l.Good+1 == lossScaleAfter:
		return LossScale{Scale: l.Scale * 2}
	}
	return LossScale{l.Scale, l.Good + 1}
}
