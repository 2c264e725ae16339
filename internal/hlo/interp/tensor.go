package interp

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// tensor is a value on one device: floats, or integers and truth values.
type tensor struct {
	hlo.TensorType
	f []float64
	i []int64
}

func isFloat(elem string) bool { return strings.Contains(elem, "f") }

func newTensor(t hlo.TensorType) tensor {
	if isFloat(t.Elem) {
		return tensor{TensorType: t, f: make([]float64, t.Len())}
	}
	return tensor{TensorType: t, i: make([]int64, t.Len())}
}

// copyOf copies element from of x to element to of t.
func (t tensor) copyOf(to int, x tensor, from int) {
	if t.f != nil {
		t.f[to] = x.f[from]
	} else {
		t.i[to] = x.i[from]
	}
}

// at returns one element as a scalar.
func (t tensor) at(i int) tensor {
	s := newTensor(hlo.TensorType{Elem: t.Elem})
	s.copyOf(0, t, i)
	return s
}

func (t tensor) clone() tensor {
	c := newTensor(t.TensorType)
	copy(c.f, t.f)
	copy(c.i, t.i)
	return c
}

// round rounds a float to its type.
func round(elem string, x float64) float64 {
	switch elem {
	case "f32":
		return float64(float32(x))
	case "bf16":
		return float64(array.ToBFloat16(float32(x)).Float32())
	case "f16":
		return float64(array.ToFloat16(float32(x)).Float32())
	}
	return x
}

// wrap wraps an integer to its type.
func wrap(elem string, x int64) int64 {
	switch elem {
	case "i32":
		return int64(int32(x))
	case "ui32":
		return int64(uint32(x))
	case "i16":
		return int64(int16(x))
	case "ui8":
		return int64(uint8(x))
	case "i1":
		return x & 1
	}
	return x
}

var elemOf = map[array.DType]string{
	array.F64: "f64", array.F32: "f32", array.BF16: "bf16", array.F16: "f16",
	array.I64: "i64", array.I32: "i32", array.I16: "i16", array.U8: "ui8", array.Bool: "i1",
}

func dtypeOf(elem string) array.DType {
	for d, e := range elemOf {
		if e == elem {
			return d
		}
	}
	return array.Invalid
}

func fromArray(a array.Array) tensor {
	t := newTensor(hlo.TensorType{Elem: elemOf[a.DType()], Shape: a.Shape()})
	for i := range t.Len() {
		switch {
		case t.f != nil:
			t.f[i] = a.At(i)
		case a.DType() == array.I64:
			t.i[i] = array.Data[int64](a)[i]
		default:
			t.i[i] = int64(a.At(i))
		}
	}
	return t
}

func (t tensor) array() array.Array {
	a := array.New(dtypeOf(t.Elem), t.Shape...)
	for i := range t.Len() {
		switch a.DType() {
		case array.F64:
			array.Data[float64](a)[i] = t.f[i]
		case array.F32:
			array.Data[float32](a)[i] = float32(t.f[i])
		case array.BF16:
			array.Data[array.BFloat16](a)[i] = array.ToBFloat16(float32(t.f[i]))
		case array.F16:
			array.Data[array.Float16](a)[i] = array.ToFloat16(float32(t.f[i]))
		case array.I64:
			array.Data[int64](a)[i] = t.i[i]
		case array.I32:
			array.Data[int32](a)[i] = int32(t.i[i])
		case array.I16:
			array.Data[int16](a)[i] = int16(t.i[i])
		case array.U8:
			array.Data[uint8](a)[i] = uint8(t.i[i])
		case array.Bool:
			array.Data[bool](a)[i] = t.i[i] != 0
		}
	}
	return a
}

// constant decodes an attribute's elements.
func constant(a hlo.DenseAttr) tensor {
	t := newTensor(a.Type)
	for i := range t.Len() {
		word := a.Words[0]
		if !a.Splat {
			word = a.Words[i]
		}
		if t.f != nil {
			t.f[i] = round(t.Elem, floatOf(t.Elem, word))
		} else {
			t.i[i] = intOf(word)
		}
	}
	return t
}

func intOf(word string) int64 {
	switch word {
	case "true":
		return 1
	case "false":
		return 0
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		fail("element %s: want an integer", word)
	}
	return n
}

func floatOf(elem, word string) float64 {
	if hex, ok := strings.CutPrefix(word, "0x"); ok {
		bits, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			fail("element %s: want bits", word)
		}
		switch elem {
		case "f64":
			return math.Float64frombits(bits)
		case "f32":
			return float64(math.Float32frombits(uint32(bits)))
		case "bf16":
			return float64(array.BFloat16(bits).Float32())
		}
		return float64(array.Float16(bits).Float32())
	}
	x, err := strconv.ParseFloat(word, 64)
	if err != nil {
		fail("element %s: want a float", word)
	}
	return x
}

// fault is why a program cannot run.
type fault struct{ error }

func fail(format string, args ...any) { panic(fault{fmt.Errorf(format, args...)}) }

// strides returns the stride of each dim, in elements.
func strides(shape []int) []int {
	s, n := make([]int, len(shape)), 1
	for d := len(shape) - 1; d >= 0; d-- {
		s[d] = n
		n *= shape[d]
	}
	return s
}

// each calls f for every index of a shape, in row-major order, with its linear index.
func each(shape []int, f func(n int, index []int)) {
	index, total := make([]int, len(shape)), 1
	for _, d := range shape {
		total *= d
	}
	for n := range total {
		f(n, index)
		for d := len(shape) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// offset returns the linear index of an index; false if it is out of range.
func offset(shape, index []int) (int, bool) {
	n := 0
	for d, i := range index {
		if i < 0 || i >= shape[d] {
			return 0, false
		}
		n = n*shape[d] + i
	}
	return n, true
}
