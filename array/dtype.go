package array

import "fmt"

// DType is the type of an Array's elements.
type DType uint8

// The element types. BF16 and F16 are storage types: arithmetic on them happens in float32, and on I16 in
// 32-bit integers.
const (
	Invalid DType = iota
	F64
	F32
	BF16
	F16
	I64
	I32
	I16
	U8
	Bool
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0},
	F64:     {"f64", 8},
	F32:     {"f32", 4},
	BF16:    {"bf16", 2},
	F16:     {"f16", 2},
	I64:     {"i64", 8},
	I32:     {"i32", 4},
	I16:     {"i16", 2},
	U8:      {"u8", 1},
	Bool:    {"bool", 1},
}

// DTypes lists every valid element type.
func DTypes() []DType { return []DType{F64, F32, BF16, F16, I64, I32, I16, U8, Bool} }

// IsValid reports whether d is one of DTypes.
func (d DType) IsValid() bool { return d > Invalid && int(d) < len(dtypes) }

// Size returns the number of bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// String returns the short name that programs print: f32, bf16, i64 …
func (d DType) String() string { return dtypes[d].name }

// IsFloat reports whether d holds real numbers, which are the ones that have gradients.
func (d DType) IsFloat() bool { return d == F64 || d == F32 || d == BF16 || d == F16 }

// IsHalf reports whether d is a float stored in 16 bits and computed in float32.
func (d DType) IsHalf() bool { return d == BF16 || d == F16 }

// IsInt reports whether d holds integers (Bool does not).
func (d DType) IsInt() bool { return d == I64 || d == I32 || d == I16 || d == U8 }

// Compute returns the type in which arithmetic on d happens.
func (d DType) Compute() DType {
	switch d {
	case BF16, F16:
		return F32
	case I16:
		return I32
	}
	return d
}

// ParseDType reads the short name that String prints.
func ParseDType(s string) (DType, error) {
	for _, d := range DTypes() {
		if d.String() == s {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("dtype: unknown name %q: want one of %v", s, DTypes())
}

// MarshalText is like String, for attributes and JSON.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses a dtype as ParseDType does.
func (d *DType) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDType(string(text))
	return err
}
