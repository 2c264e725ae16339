package safetensors

import "github.com/galley-ml/galley/array"

// format is one of the format's element types.
type format struct {
	name  string
	bits  uint64      // one element's; a few types are narrower than a byte
	dtype array.DType // Invalid where there is no array of it
}

// formats is in the order of the reference writer, narrow types first. Tensors are laid out in the opposite
// order, so that each starts at a multiple of its element's size.
var formats = [...]format{
	{"BOOL", 8, array.Bool},
	{"F4", 4, array.Invalid},
	{"F6_E2M3", 6, array.Invalid},
	{"F6_E3M2", 6, array.Invalid},
	{"U8", 8, array.U8},
	{"I8", 8, array.Invalid},
	{"F8_E5M2", 8, array.Invalid},
	{"F8_E4M3", 8, array.Invalid},
	{"F8_E8M0", 8, array.Invalid},
	{"I16", 16, array.I16},
	{"U16", 16, array.Invalid},
	{"F16", 16, array.F16},
	{"BF16", 16, array.BF16},
	{"I32", 32, array.I32},
	{"U32", 32, array.Invalid},
	{"F32", 32, array.F32},
	{"C64", 64, array.Invalid},
	{"F64", 64, array.F64},
	{"I64", 64, array.I64},
	{"U64", 64, array.Invalid},
}

func formatNamed(name string) (format, bool) {
	for _, f := range formats {
		if f.name == name {
			return f, true
		}
	}
	return format{}, false
}

// rank returns the place in formats of the type that stores d, or -1.
func rank(d array.DType) int {
	for i, f := range formats {
		if f.dtype == d && d != array.Invalid {
			return i
		}
	}
	return -1
}
