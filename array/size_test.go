package array_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
)

// panics reports whether f does.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

// TestNewRefuses: no array's memory is smaller than its shape says, however the shape overflows.
func TestNewRefuses(t *testing.T) {
	for _, shape := range [][]int{
		{1<<62 + 1, 4}, {1 << 32, 1 << 32}, {-1}, {-2, -3}, {math.MaxInt}, {math.MaxInt, 2}, {0, math.MaxInt,
			3}, {1 << 47},
	} {
		if !panics(func() { array.New(array.F32, shape...) }) {
			t.Errorf("new f32%v: no panic", array.Shape(shape))
		}
	}
	if !panics(func() { array.New(array.Invalid, 2) }) || !panics(func() { array.New(array.DType(77), 2) }) {
		t.Error("an array without a dtype is made")
	}
	if !panics(func() { array.View(array.F32, array.Shape{1<<62 + 1, 4}, make([]byte, 16)) }) {
		t.Error("a view of more elements than its memory holds is made")
	}
	if !panics(func() { array.FromSlice(make([]float32, 4), 1<<62+1, 4) }) {
		t.Error("a slice is taken for more elements than it has")
	}
	if !panics(func() { array.New(array.F32, 4).Reshape(1<<62+1, 4) }) {
		t.Error("an array is reshaped to more elements than it has")
	}
}

// TestShapeIsOwn: the caller's list of dims may change afterwards.
func TestShapeIsOwn(t *testing.T) {
	dims := []int{2, 3}
	a := array.New(array.F32, dims...)
	b := array.FromSlice(make([]float32, 6), dims...)
	c := a.Reshape(dims...)
	dims[0] = 1 << 20
	for _, x := range []array.Array{a, b, c} {
		if x.Shape()[0] != 2 {
			t.Errorf("shape %v follows the caller's list", x.Shape())
		}
	}
}

// FuzzNew: an array's memory is what its shape says, or there is none.
func FuzzNew(f *testing.F) {
	f.Add(uint8(2), int64(1<<62+1), int64(4), int64(1))
	f.Add(uint8(1), int64(3), int64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, d uint8, a, b, c int64) {
		shape := array.Shape{int(a), int(b), int(c)}
		if shape.Valid() && shape.Len() > 1<<20 {
			return // it would only take memory
		}
		dtype := array.DType(d % 12)
		if panics(func() {
			x := array.New(dtype, shape...)
			n := 1.0
			for _, k := range shape {
				n *= float64(k)
			}
			if got := float64(len(x.Bytes())); got != n*float64(dtype.Size()) || float64(x.Len()) != n {
				t.Errorf("%v%v: got %v bytes and %d elements, want %v elements", dtype, shape, got, x.Len(), n)
			}
		}) && shape.Valid() && dtype.IsValid() {
			t.Errorf("%v%v is refused", dtype, shape)
		}
	})
}
