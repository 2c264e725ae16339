package array

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// BFloat16 is a bfloat16 in its 16 bits: the upper half of a float32.
type BFloat16 uint16

// Float16 is an IEEE half-precision number in its 16 bits.
type Float16 uint16

// Elem is a Go type that an Array can hold.
type Elem interface {
	float64 | float32 | BFloat16 | Float16 | int64 | int32 | int16 | uint8 | bool
}

// Alignment is the byte boundary at which New starts an array's memory: one cache line, one AVX-512 register.
const Alignment = 64

// Array is a dense host array. The zero Array is invalid.
type Array struct {
	dtype DType
	shape Shape
	data  []byte
}

// MaxBytes is more than the memory of any machine: an array must be smaller.
const MaxBytes = 1 << 47

// New makes an array of zeros. It panics, as make does, if there is no such dtype, a dim is negative or the
// array would have MaxBytes or more.
func New(dtype DType, shape ...int) Array {
	n := bytesOfType("new", dtype, shape)
	if n >= MaxBytes {
		panic(fmt.Sprintf("array: new %v%v: got %d bytes, want fewer than %d", dtype, Shape(shape), n, MaxBytes))
	}
	return Array{dtype: dtype, shape: Shape(shape).Clone(), data: alignedBytes(n)}
}

// bytesOfType returns the memory that the elements take. All constructors go through it: kernels trust that
// an array's shape and memory agree.
func bytesOfType(what string, dtype DType, shape Shape) int {
	if !dtype.IsValid() {
		panic(fmt.Sprintf("array: %s %v: no such dtype: %d", what, shape, dtype))
	}
	if !shape.Valid() {
		panic(fmt.Sprintf("array: %s %v%v: want dims that are not negative and a product that fits", what, dtype,
			shape))
	}
	return shape.Len() * dtype.Size()
}

func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	raw := make([]byte, n+Alignment)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (Alignment - 1)
	return raw[skip : skip+n : skip+n]
}

// View makes an array over data, which it shares, as it does shape. It panics if data has the wrong length.
func View(dtype DType, shape Shape, data []byte) Array {
	if want := bytesOfType("view of", dtype, shape); len(data) != want {
		panic(fmt.Sprintf("array: view of %v%v: got %d bytes, want %d", dtype, shape, len(data), want))
	}
	return Array{dtype: dtype, shape: shape, data: data}
}

// Absent returns an array whose bytes are elsewhere: it has a type and no data.
func Absent(dtype DType, shape Shape) Array { return Array{dtype: dtype, shape: shape} }

// FromSlice makes an array over data, which it shares. It panics if the shape does not fit.
func FromSlice[T Elem](data []T, shape ...int) Array {
	var zero T
	d := dtypeOf(zero)
	return View(d, slices.Clone(shape), bytesOf(data))
}

// Scalar makes an array of one element and no dims.
func Scalar[T Elem](v T) Array { return FromSlice([]T{v}) }

func dtypeOf(v any) DType {
	switch v.(type) {
	case float64:
		return F64
	case float32:
		return F32
	case BFloat16:
		return BF16
	case Float16:
		return F16
	case int64:
		return I64
	case int32:
		return I32
	case int16:
		return I16
	case uint8:
		return U8
	case bool:
		return Bool
	}
	return Invalid
}

func bytesOf[T Elem](data []T) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(data[0])))
}

// Data returns a's elements, shared. It panics if a does not hold elements of type T.
func Data[T Elem](a Array) []T {
	var zero T
	if d := dtypeOf(zero); d != a.dtype {
		panic(fmt.Sprintf("array: elements of %v%v read as %v", a.dtype, a.shape, d))
	}
	if len(a.data) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&a.data[0])), len(a.data)/int(unsafe.Sizeof(zero)))
}

// DType returns the type of a's elements.
func (a Array) DType() DType { return a.dtype }

// Shape returns a's dims; it must not be changed.
func (a Array) Shape() Shape { return a.shape }

// Len returns the number of elements.
func (a Array) Len() int { return a.shape.Len() }

// Bytes returns a's memory, shared.
func (a Array) Bytes() []byte { return a.data }

// IsValid reports whether a was made by this package's constructors.
func (a Array) IsValid() bool { return a.dtype != Invalid }

// Reshape returns the same memory under another shape of equal length.
func (a Array) Reshape(shape ...int) Array { return View(a.dtype, slices.Clone(shape), a.data) }

// Rows returns the part of a with first indices lo to hi, shared.
func (a Array) Rows(lo, hi int) Array {
	row := Shape(a.shape[1:]).Len() * a.dtype.Size()
	shape := a.shape.Clone()
	shape[0] = hi - lo
	return View(a.dtype, shape, a.data[lo*row:hi*row])
}

// Clone copies a with its memory.
func (a Array) Clone() Array {
	c := New(a.dtype, a.shape...)
	copy(c.data, a.data)
	return c
}

// printLimit keeps a large array's text to one readable line.
const printLimit = 16

// String prints the type and the first elements: f32[2,2]{1 2 3 4}.
func (a Array) String() string {
	if !a.IsValid() {
		return "invalid array"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v{", a.dtype, a.shape)
	for i := range min(a.Len(), printLimit) {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%v", a.elem(i))
	}
	if a.Len() > printLimit {
		b.WriteString(" …")
	}
	b.WriteByte('}')
	return b.String()
}

func (a Array) elem(i int) any {
	switch a.dtype {
	case I64:
		return Data[int64](a)[i]
	case I32:
		return Data[int32](a)[i]
	case I16:
		return Data[int16](a)[i]
	case U8:
		return Data[uint8](a)[i]
	case Bool:
		return Data[bool](a)[i]
	}
	return float32OrWider(a, i)
}

// float32OrWider keeps float32's short printed form.
func float32OrWider(a Array, i int) any {
	if a.dtype == F64 {
		return Data[float64](a)[i]
	}
	return float32(a.At(i))
}

// Raw returns a's elements as bit patterns of their size, shared: what ops that only move elements work on.
// It panics if the sizes differ.
func Raw[T uint8 | uint16 | uint32 | uint64](a Array) []T {
	var zero T
	if size := int(unsafe.Sizeof(zero)); size != a.dtype.Size() {
		panic(fmt.Sprintf("array: elements of %v%v read as %d bytes each", a.dtype, a.shape, size))
	}
	if len(a.data) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&a.data[0])), len(a.data)/int(unsafe.Sizeof(zero)))
}
