package kernel

//go:generate go -C gen run ./ordered -out ../ordered_amd64.s -stubs ../ordered_stubs_amd64.go -pkg kernel

import (
	"fmt"
	"math"
)

// Ordered is a product with a fixed order of summation, for any number of rows and on every processor:
//
//	sum = 0; for p from 0 to K: sum = fma(x[i*LDX+p], w[p*LDW+j], sum)
//	y[i*LDY+j] += sum
//
// So a row's result does not depend on other rows. Cols is a multiple of OrderedLanes.
type Ordered struct {
	Rows, K, Cols int
	LDY, LDX, LDW int
}

// OrderedLanes is the unit of columns of an ordered product.
const OrderedLanes = 16

// OrderedTerms is the most terms that callers sum in one chain: longer sums lose more precision.
const OrderedTerms = 128

// orderedRows is the most rows of a kernel.
const orderedRows = 6

// orderedWeight is the element types of w: float32, bfloat16 or small integers.
type orderedWeight interface{ float32 | uint16 | int8 }

// orderedFunc computes up to orderedRows rows of 16 or 64 columns.
type orderedFunc[W orderedWeight] func(k int, y *float32, ldy int, x *float32, ldx int, w *W, ldw int)

// orderedKernels is the kernels of one instruction set and element type, by the rows minus one: the product
// for 16 and for 64 columns, and those with pages.
type orderedKernels[W orderedWeight] struct {
	product [2][orderedRows]orderedFunc[W]
	across  [orderedRows]acrossFunc[W]
	along   [orderedRows]alongFunc[W]
}

// orderedSet is the kernels of one instruction set.
type orderedSet struct {
	name string
	f32  orderedKernels[float32]
	bf16 orderedKernels[uint16]
	i8   orderedKernels[int8]
}

// orderedOf returns the kernels of a set for an element type.
func orderedOf[W orderedWeight](set *orderedSet) *orderedKernels[W] {
	var k any
	switch any(*new(W)).(type) {
	case uint16:
		k = &set.bf16
	case int8:
		k = &set.i8
	default:
		k = &set.f32
	}
	return k.(*orderedKernels[W])
}

// orderedSets lists the sets that this processor can run, the best first.
var orderedSets = append(orderedAsmSets(), orderedSet{name: "plain"})

// F32 adds x·w to y.
func (o Ordered) F32(y, x, w []float32) { o.f32(&orderedSets[0], y, x, w) }

// BF16 is like F32 with w in bfloat16.
func (o Ordered) BF16(y, x []float32, w []uint16) { o.bf16(&orderedSets[0], y, x, w) }

// I8 is like F32 with w in 8-bit integers.
func (o Ordered) I8(y, x []float32, w []int8) { o.i8(&orderedSets[0], y, x, w) }

func (o Ordered) f32(set *orderedSet, y, x, w []float32) {
	o.check(len(y), len(x), len(w))
	runOrdered(o, &set.f32, y, x, w)
}

func (o Ordered) bf16(set *orderedSet, y, x []float32, w []uint16) {
	o.check(len(y), len(x), len(w))
	runOrdered(o, &set.bf16, y, x, w)
}

func (o Ordered) i8(set *orderedSet, y, x []float32, w []int8) {
	o.check(len(y), len(x), len(w))
	runOrdered(o, &set.i8, y, x, w)
}

// check panics unless the operands are inside their slices: the kernels have no bounds checks.
func (o Ordered) check(y, x, w int) {
	if o.Rows == 0 || o.K == 0 || o.Cols == 0 {
		return
	}
	if o.Rows < 0 || o.K < 0 || o.Cols < 0 || o.Cols%OrderedLanes != 0 ||
		(o.Rows-1)*o.LDY+o.Cols > y || (o.Rows-1)*o.LDX+o.K > x || (o.K-1)*o.LDW+o.Cols > w {
		panic(fmt.Sprintf("kernel: ordered product %+v does not fit %d, %d and %d elements", o, y, x, w))
	}
}

func runOrdered[W orderedWeight](o Ordered, set *orderedKernels[W], y, x []float32, w []W) {
	if o.K == 0 {
		return
	}
	for col := 0; col < o.Cols; {
		wide, cols := 0, OrderedLanes
		if o.Cols-col >= 64 {
			wide, cols = 1, 64
		}
		for i := 0; i < o.Rows; i += orderedRows {
			rows := min(orderedRows, o.Rows-i)
			f := set.product[wide][rows-1]
			if f == nil {
				orderedPlain(o, rows, cols, y[i*o.LDY+col:], x[i*o.LDX:], w[col:])
				continue
			}
			f(o.K, &y[i*o.LDY+col], o.LDY, &x[i*o.LDX], o.LDX, &w[col], o.LDW)
		}
		col += cols
	}
}

func orderedPlain[W orderedWeight](o Ordered, rows, cols int, y, x []float32, w []W) {
	widen := widening[W]()
	var sums [64]float32
	for i := range rows {
		clear(sums[:cols])
		for p, f := range x[i*o.LDX : i*o.LDX+o.K] {
			for j, v := range w[p*o.LDW : p*o.LDW+cols] {
				sums[j] = fma32(f, widen(v), sums[j])
			}
		}
		for j, s := range sums[:cols] {
			y[i*o.LDY+j] += s
		}
	}
}

// widening returns the function that converts an element to float32.
func widening[W orderedWeight]() func(W) float32 {
	var f any
	switch any(*new(W)).(type) {
	case uint16:
		f = BF16ToF32
	case int8:
		f = func(v int8) float32 { return float32(v) }
	default:
		f = func(v float32) float32 { return v }
	}
	return f.(func(W) float32)
}

// fma32 returns a·b + c, rounded once. The product is exact in 64 bits; the sum is rounded to odd there, so
// that rounding it to 32 bits is rounding the exact sum. [Boldo and Melquiond 2008]
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	lost := (p - (s - t)) + (q - t)
	if bits := math.Float64bits(s); lost != 0 && lost == lost && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
