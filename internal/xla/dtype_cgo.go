//go:build cgo && linux

package xla

import (
	"github.com/gomlx/compute/dtypes"

	"github.com/galley-ml/galley/array"
)

// dtypeOf is the plugin's name of a dtype.
func dtypeOf(d array.DType) dtypes.DType {
	switch d {
	case array.F64:
		return dtypes.Float64
	case array.F32:
		return dtypes.Float32
	case array.BF16:
		return dtypes.BFloat16
	case array.F16:
		return dtypes.Float16
	case array.I64:
		return dtypes.Int64
	case array.I32:
		return dtypes.Int32
	case array.U8:
		return dtypes.Uint8
	case array.Bool:
		return dtypes.Bool
	}
	return dtypes.InvalidDType
}
