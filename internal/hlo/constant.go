package hlo

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Constant returns a tensor of type t with one number everywhere. The number is written once and broadcast: a
// literal of the whole tensor would be stored as one.
func (w *Writer) Constant(t Type, x float64) Ref {
	return w.splat(t, literal(t.DType, x))
}

// splat returns a tensor of type t with one element everywhere.
func (w *Writer) splat(t Type, value string) Ref {
	scalar := Type{DType: t.DType}
	one := w.Once(value+" : "+scalar.String(), func() Ref {
		return w.Op("constant", fmt.Sprintf("value = dense<%s> : %s", value, scalar), scalar)
	})
	if len(t.Shape) == 0 {
		return one
	}
	return w.Once(value+" : "+t.String(), func() Ref { return w.Broadcast(one, t.Shape, nil) })
}

// Int64 returns a tensor with one i64, which a float64 may not represent, everywhere.
func (w *Writer) Int64(shape array.Shape, x int64) Ref {
	return w.splat(Type{array.I64, shape}, strconv.FormatInt(x, 10))
}

// List returns a constant vector of numbers.
func (w *Writer) List(d array.DType, xs []float64) Ref {
	t := Type{d, array.Shape{len(xs)}}
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = literal(d, x)
	}
	text := "[" + strings.Join(words, ", ") + "]"
	if len(xs) == 0 {
		text = ""
	}
	return w.Once(text+" : "+t.String(), func() Ref {
		return w.Op("constant", fmt.Sprintf("value = dense<%s> : %s", text, t), t)
	})
}

func literal(d array.DType, x float64) string {
	switch {
	case d == array.Bool:
		return strconv.FormatBool(x != 0)
	case d.IsInt():
		return strconv.FormatInt(int64(x), 10)
	}
	switch narrow := roundTo(d, x); {
	case !math.IsInf(narrow, 0) && narrow == narrow:
		return decimal(d, narrow)
	case d == array.F64:
		return fmt.Sprintf("0x%016X", math.Float64bits(x))
	case d == array.F32:
		return fmt.Sprintf("0x%08X", math.Float32bits(float32(x)))
	case d == array.BF16:
		return fmt.Sprintf("0x%04X", uint16(array.ToBFloat16(float32(x))))
	}
	return fmt.Sprintf("0x%04X", uint16(array.ToFloat16(float32(x))))
}

// roundTo rounds x to dtype d.
func roundTo(d array.DType, x float64) float64 {
	switch d {
	case array.F32:
		return float64(float32(x))
	case array.BF16:
		return float64(array.ToBFloat16(float32(x)).Float32())
	case array.F16:
		return float64(array.ToFloat16(float32(x)).Float32())
	}
	return x
}

// decimal returns the shortest number that parses as x; MLIR requires a decimal point.
func decimal(d array.DType, x float64) string {
	size := 32
	if d == array.F64 {
		size = 64
	}
	text := strconv.FormatFloat(x, 'e', -1, size)
	digits, exponent, _ := strings.Cut(text, "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	return digits + "e" + exponent
}

// Broadcast broadcasts x to shape: dim i of x becomes dim dims[i] of the result.
func (w *Writer) Broadcast(x Ref, shape array.Shape, dims []int) Ref {
	return w.Op("broadcast_in_dim", "broadcast_dimensions = "+Ints(dims), Type{x.DType, shape}, x)
}

// Convert returns x with elements of another dtype; x itself if it has that dtype.
func (w *Writer) Convert(x Ref, d array.DType) Ref {
	if x.DType == d {
		return x
	}
	return w.Op("convert", "", Type{d, x.Shape}, x)
}

// Bits returns the bits of x's elements as elements of another dtype of their size.
func (w *Writer) Bits(x Ref, d array.DType) Ref {
	return w.Op("bitcast_convert", "", Type{d, x.Shape}, x)
}

// Ints returns an MLIR array attribute.
func Ints(xs []int) string {
	if len(xs) == 0 {
		return "array<i64>"
	}
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = strconv.Itoa(x)
	}
	return "array<i64: " + strings.Join(words, ", ") + ">"
}

// Dot emits a general product: batch dims are paired, contracting dims are summed over. Products of 32-bit
// and wider floats are in full precision, not in a tensor core's reduced one.
func (w *Writer) Dot(x, y Ref, batchX, batchY, sumX, sumY []int, out Type) Ref {
	attrs := fmt.Sprintf("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = %s, "+
		"rhs_batching_dimensions = %s, "+
		"lhs_contracting_dimensions = %s, rhs_contracting_dimensions = %s>", list(batchX), list(batchY), list(sumX),
		list(sumY))
	r := w.Op("dot_general", attrs+", precision_config = "+precision(x.DType), out, x, y)
	w.products[r.id] = true
	return r
}

// IsProduct reports whether x is a result of Dot.
func (w *Writer) IsProduct(x Ref) bool { return w.products[x.id] }

// Precision returns the precision attribute of products of a dtype.
func Precision(d array.DType) string { return "precision_config = " + precision(d) }

func precision(d array.DType) string {
	word := "HIGHEST"
	if d.IsHalf() {
		word = "DEFAULT"
	}
	return fmt.Sprintf("[#stablehlo<precision %[1]s>, #stablehlo<precision %[1]s>]", word)
}

func list(xs []int) string {
	words := make([]string, len(xs))
	for i, x := range xs {
		words[i] = strconv.Itoa(x)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
