package main

import (
	"math"
)

const (
	geluC0 = 0.7978845608028653558798921198687637369 // sqrt(2/pi)
	geluC1 = 0.044715
)

// unary emits dst[i] = f(x[i]).
func (s isa) unary(name string, f func(x vec) vec) {
	s.function(name, "(dst, x []float32)")
	s.loop(2, []string{"dst", "x"}, func(t step) { t.out("dst", f(t.in("x"))) })
	finish()
}

func (s isa) unaryKernels() {
	s.unary("exp", s.exp)
	s.unary("log", func(x vec) vec { return s.log(x, nil) })
	s.unary("tanh", s.tanh)
	s.unary("erf", s.erf)
	s.unary("expm1", s.expm1)
	s.unary("log1p", s.log1p)
	s.unary("softplus", s.softplus)
	s.unary("sigmoid", func(x vec) vec { return s.sigmoidOfMinus(s.neg(x)) })
	s.unary("silu", func(x vec) vec { return s.div(x, s.add(s.exp(s.neg(x)), c(1))) })
	s.unary("gelu", func(x vec) vec { cdf, _ := s.normalCDF(x); return s.mul(cdf, x) })
	s.unary("geluTanh", func(x vec) vec {
		return s.div(x, s.add(s.exp(s.geluExponent(x, s.mul(x, x))), c(1)))
	})
	s.unary("sqrt", s.sqrt)
	s.unary("rsqrt", func(x vec) vec { return s.div(s.load(c(1)), s.sqrt(x)) })
	s.unary("reciprocal", func(x vec) vec { return s.div(s.load(c(1)), x) })
	s.unary("neg", s.neg)
	s.unary("abs", s.abs)
	s.unary("square", func(x vec) vec { return s.mul(x, x) })
	s.unary("relu", func(x vec) vec { return s.max(s.zero(), x) })
}

// geluExponent returns -2u = x*(a + b*x^2), where the tanh form of GELU is
// x/(1+exp(-2u)).
func (s isa) geluExponent(x, xx vec) vec {
	p := s.load(c(-2 * geluC0 * geluC1))
	s.mulAdd(p, xx, c(-2*geluC0))
	return s.mul(p, x)
}

// binary emits dst[i] = f(x[i], y[i]) with the given parameter names.
func (s isa) binary(name string, f func(x, y vec) vec) {
	s.function(name, "(dst, x, y []float32)")
	s.loop(2, []string{"dst", "x", "y"}, func(t step) {
		t.out("dst", f(t.in("x"), t.in("y")))
	})
	finish()
}

func (s isa) binaryKernels() {
	s.binary("add", func(x, y vec) vec { return s.add(x, y) })
	s.binary("sub", func(x, y vec) vec { return s.sub(x, y) })
	s.binary("mul", func(x, y vec) vec { return s.mul(x, y) })
	s.binary("div", func(x, y vec) vec { return s.div(x, y) })
	// The instructions return y where either is NaN, so only x needs a look.
	s.binary("max", func(x, y vec) vec { return s.choose(unordered, x, x, x, s.max(x, y)) })
	s.binary("min", func(x, y vec) vec { return s.choose(unordered, x, x, x, s.min(x, y)) })
	s.function("mulAdd", "(dst, x, y, z []float32)")
	s.loop(2, []string{"dst", "x", "y", "z"}, func(t step) {
		t.out("dst", s.accumulate(t.in("z"), t.in("x"), t.in("y")))
	})
	finish()
	s.withScalar("addScalar", func(_ step, x, k vec) vec { return s.add(x, k) })
	s.withScalar("mulScalar", func(_ step, x, k vec) vec { return s.mul(x, k) })
	s.withScalar("axpy", func(t step, x, k vec) vec { return s.accumulate(t.in("dst"), x, k) })
}

// withScalar emits dst[i] = f(x[i], c).
func (s isa) withScalar(name string, f func(t step, x, k vec) vec) {
	s.function(name, "(dst, x []float32, c float32)")
	k := s.scalar("c")
	s.loop(4, []string{"dst", "x"}, func(t step) { t.out("dst", f(t, t.in("x"), k)) })
	finish()
}

func (s isa) gradKernels() {
	s.binary("geluTanhGrad", func(x, dy vec) vec {
		x = s.clamp(x, -1e4, 1e4) // the derivative is constant there; avoids inf*0
		xx := s.mul(x, x)
		p := s.sigmoidOfMinus(s.geluExponent(x, xx))
		du := s.load(c(2 * geluC0 * 3 * geluC1))
		s.mulAdd(du, xx, c(2*geluC0))
		return s.mul(s.logisticGrad(p, s.mul(x, du)), dy)
	})
	s.binary("geluGrad", func(x, dy vec) vec {
		cdf, e := s.normalCDF(x)
		s.accumulate(cdf, s.mul(e, c(1/math.Sqrt(2*math.Pi))), s.clamp(x, -20, 20))
		return s.mul(cdf, dy)
	})
	s.binary("siluGrad", func(x, dy vec) vec {
		x = s.clamp(x, -1e4, 1e4)
		return s.mul(s.logisticGrad(s.sigmoidOfMinus(s.neg(x)), x), dy)
	})
	s.binary("swiGLU", func(gate, up vec) vec {
		return s.mul(s.div(gate, s.add(s.exp(s.neg(gate)), c(1))), up)
	})
	s.function("swiGLUGrad", "(dgate, dup, gate, up, dy []float32)")
	s.loop(1, []string{"dgate", "dup", "gate", "up", "dy"}, func(t step) {
		x := t.in("gate")
		p := s.sigmoidOfMinus(s.neg(x))
		dy, up := t.in("dy"), t.in("up")
		t.out("dup", s.mul(s.mul(p, x), dy))
		limited := s.clamp(x, -1e4, 1e4)
		t.out("dgate", s.mul(s.mul(s.logisticGrad(p, limited), up), dy))
	})
	finish()
}

// logisticGrad returns p + p*(1-p)*w, the derivative of x*p(z(x)) for a logistic
// p and w = x*z'(x).
func (s isa) logisticGrad(p, w vec) vec {
	rest := s.sub(s.load(c(1)), p)
	r := s.load(c(1))
	s.accumulate(r, rest, w)
	return s.mul(r, p)
}
