package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// Polynomials from the highest power down, fitted at Chebyshev nodes.
var (
	// (exp(r)-1-r)/r^2 on |r| <= log(2)/2, to 8e-9 of exp(r).
	expCoef = []float64{0.0013926926614, 0.00836377387441, 0.0416665501103, 0.166665733819, 0.5}
	// (log(1+f)-f+f^2/2)/f^3 on |f| <= 1/3, to 3e-9 of log(1+f).
	logCoef = []float64{0.11330617385, -0.124222005754, 0.109156547933, -0.122887216093,
		0.14291867182, -0.166733162532, 0.199999483513, -0.249999441862, 0.333333333333}
	// erf(x)/x in x^2 on |x| <= 1, to 1e-9.
	erfCoef = []float64{7.87587506269e-5, -0.000801686428717, 0.00518908742343, -0.0268542120106,
		0.112835947152, -0.376126266667, 1.12837916585}
	// exp(a^2/2)*erfc(a/sqrt(2))/2/t in t = 1/(1+tailK*a) on 0 <= a <= 14, to 4e-8.
	tailCoef = []float64{-0.0296795220045, 0.146545830293, -0.260961228295, 0.165050995857,
		-0.0270466082671, 0.107114587597, 0.119444916846, 0.139912298125, 0.139618712561}
)

const (
	tailK = 0.35
	// shifter added to a small float leaves its nearest integer in the low bits.
	shifter = 3 << 22
	ln2Hi   = 0.693359375
	ln2Lo   = math.Ln2 - ln2Hi
)

// reduced is x = n*log(2) + r with integer n; shifted holds n in its low bits.
type reduced struct{ n, r, shifted vec }

func (s isa) reduce(x vec) reduced {
	shifted := s.load(c(shifter))
	s.accumulate(shifted, x, c(math.Log2E))
	n := s.sub(shifted, c(shifter))
	r := s.load(x)
	s.deduct(r, n, c(ln2Hi))
	s.deduct(r, n, c(ln2Lo))
	return reduced{n, r, shifted}
}

// expm1Reduced returns exp(r)-1 for the reduced r.
func (s isa) expm1Reduced(r vec) vec {
	p := s.horner(r, expCoef)
	return s.mulAdd(p, s.mul(r, r), r)
}

// expLow is where the results of exp end: below, almost all are denormal, which
// a processor computes twenty times slower than others. They are made zero.
const expLow = -87.3

// exp returns exp(x): overflow is +Inf, underflow zero.
func (s isa) exp(x vec) vec { return s.expPlus(x, nil) }

// expPlus returns exp(x+low) where low, if any, is less than an ulp of x.
func (s isa) expPlus(x, low vec) vec {
	if s.wide() {
		return s.expPlus512(x, low)
	}
	d := s.reduce(s.clamp(x, expLow, 89))
	e := s.expReduced(d, low)
	// 2^n may be out of range although the result is not: two factors.
	k, half := s.subInt(d.shifted, c(shifter)), s.reg()
	VPSRAD(operand.U8(1), k, half)
	for _, h := range []vec{half, s.subInt(k, half)} {
		e = s.mul(e, s.shiftLeft(s.addInt(h, bits32(127)), 23))
	}
	return s.and(e, s.into(comparing(VCMPPS, notLess), nil, c(expLow), x))
}

// expPlus512 scales in one instruction, whose mask makes zeros of what underflows
// without computing it.
func (s isa) expPlus512(x, low vec) vec {
	d := s.reduce(s.min(s.load(c(89)), x))
	e, k := s.expReduced(d, low), K()
	s.with(comparing(VCMPPS, notLess), comparing(VCMPPS_BCST, notLess), c(expLow), x, k)
	VSCALEFPS_Z(d.n, e, k, e)
	return e
}

// expReduced returns exp(r+low).
func (s isa) expReduced(d reduced, low vec) vec {
	r := d.r
	if low != nil {
		r = s.add(r, low)
	}
	return s.add(s.expm1Reduced(r), c(1))
}

// expm1 returns exp(x)-1. With s = 2^(n-1) it is 2*(s*(exp(r)-1) + (s-1/2)),
// which is exact near zero and does not overflow early.
func (s isa) expm1(x vec) vec {
	d := s.reduce(s.clamp(x, -30, 89))
	scale := s.addInt(s.shiftLeft(d.shifted, 23), bits32(126<<23))
	h := s.sub(scale, c(0.5))
	p := s.mulAdd(s.expm1Reduced(d.r), scale, h)
	return s.add(p, p)
}

// tanh is expm1(2|x|)/(expm1(2|x|)+2) with the sign of x.
func (s isa) tanh(x vec) vec {
	a := s.min(s.load(c(10)), s.abs(x))
	e := s.expm1(s.add(a, a))
	return s.or(s.div(e, s.add(e, c(2))), s.and(x, bits32(0x80000000)))
}

// sigmoidOfMinus returns 1/(1+exp(x)).
func (s isa) sigmoidOfMinus(x vec) vec {
	return s.div(s.load(c(1)), s.add(s.exp(x), c(1)))
}

// log returns the natural logarithm. The caller's low, if any, is a correction
// added to the result in the regular case.
func (s isa) log(x, low vec) vec {
	// Denormals are scaled into the normal range first.
	const smallest = 1.17549435e-38
	scaled := s.choose(less, x, c(smallest), s.mul(x, c(1<<23)), x)
	// x = 2^e * m with m in [2/3,4/3): split at 2/3 by integer arithmetic.
	e := s.subInt(scaled, c(2.0/3))
	VPSRAD(operand.U8(23), e, e)
	m := s.subInt(scaled, s.shiftLeft(e, 23))
	VCVTDQ2PS(e, e)
	e = s.choose(less, x, c(smallest), s.sub(e, c(23)), e)
	f := s.sub(m, c(1))
	ff := s.mul(f, f)
	p := s.mul(s.horner(f, logCoef), f) // log(m) = f + ff*(p-1/2) + e*log(2)
	p = s.sub(p, c(0.5))
	tail := s.mul(e, c(ln2Lo))
	s.accumulate(tail, ff, p)
	if low != nil {
		tail = s.add(tail, low)
	}
	r := s.add(f, tail)
	s.accumulate(r, e, c(ln2Hi))
	return s.logSpecial(x, r)
}

// logSpecial puts the values of log at zero, below zero and beyond the largest
// number into r.
func (s isa) logSpecial(x, r vec) vec {
	r = s.choose(less, x, c(math.Inf(1)), r, x) // +Inf and NaN are their own
	r = s.choose(equal, x, c(0), c(math.Inf(-1)), r)
	return s.choose(less, x, c(0), bits32(0x7fc00000), r)
}

// log1p adds what rounding 1+x lost to the logarithm of the rounded sum.
func (s isa) log1p(x vec) vec {
	u := s.add(x, c(1))
	lost := s.sub(x, s.sub(u, c(1)))
	return s.log(u, s.div(lost, u))
}

// softplus is max(x,0) + log1p(exp(-|x|)).
func (s isa) softplus(x vec) vec {
	y := s.log1p(s.exp(s.or(x, bits32(0x80000000))))
	return s.add(s.max(s.zero(), x), y)
}

// normalTail returns q = erfc(z/sqrt(2))/2 and e = exp(-z^2/2), where z is
// |x|*sqrt(-2*rate) for a rate of -1/2 or -1, limited to where q is zero.
func (s isa) normalTail(x vec, rate float64) (q, e vec) {
	a := s.min(s.load(c(20)), s.abs(x))
	t := s.load(c(1))
	s.accumulate(t, a, c(tailK*math.Sqrt(-2*rate)))
	t = s.div(s.load(c(1)), t)
	// The square is split in two, for its rounding error grows with exp.
	square := s.mul(a, a)
	low := s.load(square)
	VFMSUB231PS(a, a, low)
	e = s.expPlus(s.mul(square, c(rate)), s.mul(low, c(rate)))
	return s.mul(s.mul(s.horner(t, tailCoef), t), e), e
}

// erf takes an odd polynomial up to 1 and the tail beyond.
func (s isa) erf(x vec) vec {
	q, _ := s.normalTail(x, -1)
	large := s.sub(s.load(c(1)), s.add(q, q))
	large = s.or(large, s.and(x, bits32(0x80000000)))
	small := s.mul(s.horner(s.mul(x, x), erfCoef), x)
	return s.choose(less, s.abs(x), c(1), small, large)
}

// normalCDF returns the standard normal distribution function and exp(-x^2/2).
func (s isa) normalCDF(x vec) (cdf, e vec) {
	q, e := s.normalTail(x, -0.5)
	return s.choose(less, x, c(0), q, s.sub(s.load(c(1)), q)), e
}
