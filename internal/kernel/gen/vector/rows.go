package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

func (s isa) softmaxKernels() {
	s.function("expSum", "(x []float32, shift float32) float32")
	acc, none, shift := s.sums(2), s.zero(), s.scalar("shift")
	s.loop(2, []string{"x"}, func(t step) {
		e := t.inactive(s.exp(s.sub(t.in("x"), shift)), none)
		VADDPS(e, acc[t.lane], acc[t.lane])
	})
	s.result(s.joined(acc))

	s.function("expSumStore", "(dst, x []float32, shift float32) float32")
	acc, none, shift = s.sums(2), s.zero(), s.scalar("shift")
	s.loop(2, []string{"dst", "x"}, func(t step) {
		e := s.exp(s.sub(t.in("x"), shift))
		t.out("dst", e)
		VADDPS(t.inactive(e, none), acc[t.lane], acc[t.lane])
	})
	s.result(s.joined(acc))

	s.softmaxRowKernel()
	s.softmaxMaps()
}

// softmaxRowKernel emits all three passes of a softmax for rows that are one leaf of the summation tree; for
// short rows the cost of calls dominates.
func (s isa) softmaxRowKernel() {
	s.function("softmaxRow", "(dst, x []float32)")
	acc, outside := make([]vec, accumulators), s.load(c(math.Inf(-1)))
	for i := range acc {
		acc[i] = s.load(c(math.Inf(-1)))
	}
	s.loop(accumulators, []string{"x"}, func(t step) {
		VMAXPS(t.inactive(t.in("x"), outside), acc[t.lane], acc[t.lane])
	})
	maximum := func(b, a, d operand.Op) { VMAXPS(b, a, d) }
	shift := s.broadcast(s.across(folded(acc, maximum), maximum))
	sums, none := s.sums(2), s.zero()
	s.loop(2, []string{"dst", "x"}, func(t step) {
		e := s.exp(s.sub(t.in("x"), shift))
		t.out("dst", e)
		VADDPS(t.inactive(e, none), sums[t.lane], sums[t.lane])
	})
	one := XMM()
	VMOVSS(c(1).Mem, one)
	VDIVSS(s.joined(sums), one, one)
	scale := s.broadcast(one)
	s.loop(accumulators, []string{"dst"}, func(t step) { t.out("dst", s.mul(t.in("dst"), scale)) })
	finish()
}

// softmaxMaps emits the elementwise parts of the softmax family.
func (s isa) softmaxMaps() {
	s.function("expAffine", "(dst, x []float32, shift, scale, bias float32)")
	shift, scale, bias := s.scalar("shift"), s.scalar("scale"), s.scalar("bias")
	s.loop(2, []string{"dst", "x"}, func(t step) {
		t.out("dst", s.mulAdd(s.exp(s.sub(t.in("x"), shift)), scale, bias))
	})
	finish()

	s.function("shift2", "(dst, x []float32, a, b float32)")
	a, b := s.scalar("a"), s.scalar("b")
	s.loop(2, []string{"dst", "x"}, func(t step) { t.out("dst", s.sub(s.sub(t.in("x"), a), b)) })
	finish()

	s.function("softmaxGrad", "(dx, y, dy []float32, dot float32)")
	dot := s.scalar("dot")
	s.loop(2, []string{"dx", "y", "dy"}, func(t step) {
		t.out("dx", s.mul(s.sub(t.in("dy"), dot), t.in("y")))
	})
	finish()
}

// normKernels emits y = (x-mean)*rstd, times gamma, plus beta.
func (s isa) normKernels() {
	s.function("norm", "(y, x []float32, mean, rstd float32)")
	mean, rstd := s.scalar("mean"), s.scalar("rstd")
	s.loop(2, []string{"y", "x"}, func(t step) {
		t.out("y", s.mul(s.sub(t.in("x"), mean), rstd))
	})
	finish()

	s.function("normGamma", "(y, x, gamma []float32, mean, rstd float32)")
	mean, rstd = s.scalar("mean"), s.scalar("rstd")
	s.loop(2, []string{"y", "x", "gamma"}, func(t step) {
		t.out("y", s.mul(s.mul(s.sub(t.in("x"), mean), rstd), t.in("gamma")))
	})
	finish()

	s.function("normAffine", "(y, x, gamma, beta []float32, mean, rstd float32)")
	mean, rstd = s.scalar("mean"), s.scalar("rstd")
	s.loop(2, []string{"y", "x", "gamma", "beta"}, func(t step) {
		h := s.mul(s.sub(t.in("x"), mean), rstd)
		t.out("y", s.mulAdd(h, t.in("gamma"), t.in("beta")))
	})
	finish()
}

// normGradKernels emits the two passes of the gradient: the sums of g and g*h,
// then dx = rstd*(g - a - h*b), with h = (x-mean)*rstd and g = dy or dy*gamma.
func (s isa) normGradKernels() {
	s.function("normSums", "(x, dy []float32, mean, rstd float32) (sumG, sumGX float32)")
	mean, rstd, g, gh := s.scalar("mean"), s.scalar("rstd"), s.sums(2), s.sums(2)
	s.loop(2, []string{"x", "dy"}, func(t step) {
		h, dy := s.mul(s.sub(t.in("x"), mean), rstd), t.in("dy")
		VADDPS(dy, g[t.lane], g[t.lane])
		s.accumulate(gh[t.lane], dy, h) // dy is zero in inactive lanes
	})
	s.result(s.joined(g), s.joined(gh))

	s.function("normSumsAcc", "(dgamma, x, gamma, dy []float32, mean, rstd float32) (sumG, sumGX float32)")
	mean, rstd, g, gh = s.scalar("mean"), s.scalar("rstd"), s.sums(2), s.sums(2)
	s.loop(2, []string{"dgamma", "x", "gamma", "dy"}, func(t step) {
		h, dy := s.mul(s.sub(t.in("x"), mean), rstd), t.in("dy")
		t.out("dgamma", s.accumulate(t.in("dgamma"), dy, h))
		w := s.mul(dy, t.in("gamma"))
		VADDPS(w, g[t.lane], g[t.lane])
		s.accumulate(gh[t.lane], w, h)
	})
	s.result(s.joined(g), s.joined(gh))

	s.function("normGrad", "(dx, x, dy []float32, mean, rstd, a, b float32)")
	s.normGradLoop([]string{"dx", "x", "dy"}, func(t step) vec { return t.in("dy") })
	s.function("normGradG", "(dx, x, gamma, dy []float32, mean, rstd, a, b float32)")
	s.normGradLoop([]string{"dx", "x", "gamma", "dy"}, func(t step) vec {
		return s.mul(t.in("dy"), t.in("gamma"))
	})
}

func (s isa) normGradLoop(names []string, g func(t step) vec) {
	mean, rstd, a, b := s.scalar("mean"), s.scalar("rstd"), s.scalar("a"), s.scalar("b")
	s.loop(2, names, func(t step) {
		h := s.mul(s.sub(t.in("x"), mean), rstd)
		t.out("dx", s.mul(s.deduct(s.sub(g(t), a), h, b), rstd))
	})
	finish()
}

// adamWKernel emits m = c0*m + c1*g, v = c2*v + c3*g*g and
// p = c6*p + c7*m/(sqrt(v)*c4+c5).
func (s isa) adamWKernel() {
	s.function("adamW", "(pOut, mOut, vOut, p, g, m, v []float32, c [8]float32)")
	restore := flushDenormals()
	var k [8]vec
	for i := range k {
		k[i] = s.broadcast(address(Param("c").Index(i)))
	}
	s.loop(1, []string{"pOut", "mOut", "vOut", "p", "g", "m", "v"}, func(t step) {
		g := t.in("g")
		m := s.accumulate(s.mul(k[0], t.in("m")), g, k[1])
		v := s.accumulate(s.mul(k[2], t.in("v")), s.mul(g, g), k[3])
		t.out("mOut", m)
		t.out("vOut", v)
		d := s.mulAdd(s.sqrt(v), k[4], k[5])
		q := s.div(m, d)
		t.out("pOut", s.accumulate(s.mul(k[6], t.in("p")), q, k[7]))
	})
	restore()
	finish()
}

// flushDenormals makes denormal operands and results zero until restore's code
// runs. Moments that decay without a gradient become denormal after some hundred
// steps and would be computed twenty times slower.
func flushDenormals() (restore func()) {
	old, changed := AllocLocal(4), AllocLocal(4)
	STMXCSR(old)
	word := GP32()
	MOVL(old, word)
	ORL(operand.U32(1<<15|1<<6), word)
	MOVL(word, changed)
	LDMXCSR(changed)
	return func() { LDMXCSR(old) }
}
