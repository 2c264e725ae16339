package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// accumulators is the number of independent sums, which hide the latency of an addition.
const accumulators = 4

// sums returns zeroed accumulators.
func (s isa) sums(n int) []vec {
	acc := make([]vec, n)
	for i := range acc {
		acc[i] = s.zero()
	}
	return acc
}

// joined adds the accumulators and their lanes into one float32.
func (s isa) joined(acc []vec) reg.VecVirtual {
	return s.total(folded(acc, func(b, a, d operand.Op) { VADDPS(b, a, d) }))
}

// folded joins the accumulators by halves into the first.
func folded(acc []vec, op func(b, a, d operand.Op)) vec {
	for n := len(acc); n > 1; n /= 2 {
		for i := range n / 2 {
			op(acc[i+n/2], acc[i], acc[i])
		}
	}
	return acc[0]
}

// result stores the low lane as result i and ends the kernel.
func (s isa) result(values ...reg.VecVirtual) {
	for i, v := range values {
		Store(v.AsX(), ReturnIndex(i))
	}
	finish()
}

func (s isa) reduceKernels() {
	s.function("sum", "(x []float32) float32")
	acc := s.sums(accumulators)
	s.loop(accumulators, []string{"x"}, func(t step) { VADDPS(t.in("x"), acc[t.lane], acc[t.lane]) })
	s.result(s.joined(acc))

	s.function("sumSquares", "(x []float32) float32")
	acc = s.sums(accumulators)
	s.loop(accumulators, []string{"x"}, func(t step) {
		x := t.in("x")
		s.accumulate(acc[t.lane], x, x)
	})
	s.result(s.joined(acc))

	s.function("sumSqDev", "(x []float32, mean float32) float32")
	acc = s.sums(accumulators)
	mean := s.scalar("mean")
	s.loop(accumulators, []string{"x"}, func(t step) {
		d := s.sub(t.inactive(t.in("x"), mean), mean)
		s.accumulate(acc[t.lane], d, d)
	})
	s.result(s.joined(acc))

	s.function("dot", "(x, y []float32) float32")
	acc = s.sums(accumulators)
	s.loop(accumulators, []string{"x", "y"}, func(t step) {
		s.accumulate(acc[t.lane], t.in("x"), t.in("y"))
	})
	s.result(s.joined(acc))

	s.extreme("maxOf", math.Inf(-1), func(b, a, d operand.Op) { VMAXPS(b, a, d) })
	s.extreme("minOf", math.Inf(1), func(b, a, d operand.Op) { VMINPS(b, a, d) })
}

// extreme emits a maximum or minimum that is NaN if any element is. The instruction drops a NaN in its first
// operand, so elements are the second operand, and NaNs are recorded separately by comparing x with itself as
// unordered.
func (s isa) extreme(name string, empty float64, op func(b, a, d operand.Op)) {
	s.function(name, "(x []float32) float32")
	acc := make([]vec, accumulators)
	for i := range acc {
		acc[i] = s.load(c(empty))
	}
	outside, seen := s.load(c(empty)), s.zero()
	s.loop(accumulators, []string{"x"}, func(t step) {
		x := t.inactive(t.in("x"), outside)
		op(x, acc[t.lane], acc[t.lane])
		s.remember(seen, x)
	})
	x := s.across(folded(acc, op), op)
	// The sum of seen is zero, or NaN if anything was NaN.
	VADDSS(s.total(seen), x, x)
	s.result(x)
}

// remember sets lanes of seen to NaN where x is NaN.
func (s isa) remember(seen, x vec) {
	if s.wide() {
		k := K()
		VCMPPS(unordered, x, x, k)
		VORPS(x, seen, k, seen)
		return
	}
	m := s.reg()
	VCMPPS(unordered, x, x, m)
	VORPS(m, seen, seen)
}

// addRowsKernel emits dst[j] += sum of src[i*stride+j], the columns of one
// vector at a time so that every column is added in the order of the rows.
func (s isa) addRowsKernel() {
	s.function("addRows", "(dst, src []float32, rows, stride int)")
	src := Load(Param("src").Base(), GP64()).(reg.GPVirtual)
	rows := Load(Param("rows"), GP64())
	stride := Load(Param("stride"), GP64())
	SHLQ(operand.U8(2), stride)
	streams := map[string]reg.GPVirtual{"src": src}
	streams["dst"] = Load(Param("dst").Base(), GP64()).(reg.GPVirtual)
	n := Load(Param("dst").Len(), GP64()).(reg.GPVirtual)
	s.columns(streams, n, rows, stride)
	finish()
}
