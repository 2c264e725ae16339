package op

import "math"

// MaskedZeros reports whether a value has zeros wherever a mask hides elements: it is a where with 0, the
// exponential of a where with -Inf, or computed from one of these such that zeros stay. Positions that
// overflow or are NaN may differ, so this is a hint at what is worth looking for, and no proof.
func MaskedZeros(v *Tensor) bool { return maskedWith(v, 0, maskedDepth) }

// maskedDepth bounds how many ops lie between a mask and the value: a softmax and its gradient have eight.
const maskedDepth = 16

// maskedWith reports whether a value is fill, which is 0 or -Inf, where a mask hides.
func maskedWith(v *Tensor, fill float64, depth int) bool {
	if v.Node() == nil || depth == 0 {
		return false
	}
	in := v.Node().In()
	from := func(i int, fill float64) bool { return maskedWith(in[i], fill, depth-1) }
	switch o := v.Node().Op().(type) {
	case where:
		return isFull(in[2], fill) || from(1, fill) && from(2, fill)
	case exp:
		return fill == 0 && from(0, math.Inf(-1))
	case sub:
		return fill != 0 && from(0, fill)
	case mul:
		return fill == 0 && (from(0, 0) || from(1, 0))
	case div:
		return fill == 0 && from(0, 0)
	case neg:
		return fill == 0 && from(0, 0)
	case reshape:
		return from(0, fill)
	case cast:
		return o.DType.IsFloat() && from(0, fill)
	}
	return false
}

// isFull reports whether all elements of a value are a given constant.
func isFull(v *Tensor, value float64) bool {
	if v.Node() == nil {
		return false
	}
	switch o := v.Node().Op().(type) {
	case full:
		return o.Value == value
	case expand:
		return isFull(v.Node().In()[0], value)
	}
	return false
}
