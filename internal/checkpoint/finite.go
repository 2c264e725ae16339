package checkpoint

import (
	"math"
	"slices"

	"github.com/galley-ml/galley/array"
)

// finite returns an error if the copy that is about to be written contains a number that is not finite.
func (p *plan) finite() error {
	for i := range p.pieces {
		if pc := &p.pieces[i]; !allFinite(pc.data) {
			return &NotFiniteError{Step: p.manifest.Step, Tensor: p.manifest.Tensors[pc.tensor].Name}
		}
	}
	return nil
}

// allFinite reports whether no element of an array is NaN or infinite, which have all exponent bits set.
func allFinite(a array.Array) bool {
	switch a.DType() {
	case array.F32:
		return !slices.ContainsFunc(array.Data[float32](a),
			func(x float32) bool { return math.Float32bits(x)&0x7f800000 == 0x7f800000 })
	case array.F64:
		return !slices.ContainsFunc(array.Data[float64](a), func(x float64) bool {
			return math.IsNaN(x) ||
				math.IsInf(x, 0)
		})
	case array.BF16:
		return !slices.ContainsFunc(array.Data[array.BFloat16](a),
			func(x array.BFloat16) bool { return x&0x7f80 == 0x7f80 })
	case array.F16:
		return !slices.ContainsFunc(array.Data[array.Float16](a),
			func(x array.Float16) bool { return x&0x7c00 == 0x7c00 })
	}
	return true
}
