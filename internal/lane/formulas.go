package lane

import "math"

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
	// expLow is where the results of exp end: below, almost all are denormal, which a processor computes twenty
	// times slower than others. They are made zero.
	expLow = -87.3

	geluC0 = 0.7978845608028653558798921198687637369 // sqrt(2/pi)
	geluC1 = 0.044715
)

func (b *Builder) mulAdd(p, x, q Arg) Arg { return b.emit(MulAdd, 0, b.reg(p), x, q) }
func (b *Builder) addMul(s, x, y Arg) Arg { return b.emit(AddMul, 0, b.reg(s), x, y) }
func (b *Builder) dedMul(s, x, y Arg) Arg { return b.emit(DedMul, 0, b.reg(s), x, y) }

func (b *Builder) choose(predicate uint8, x, y, yes, no Arg) Arg {
	return b.emit(Choose, predicate, b.reg(x), y, yes, b.reg(no))
}

// clamp limits x to [low,high] and keeps NaN.
func (b *Builder) clamp(x Arg, low, high float64) Arg {
	return b.two(Max, b.Number(low), b.two(Min, b.Number(high), x))
}

// horner returns the polynomial in x with the coefficients from the highest power down.
func (b *Builder) horner(x Arg, coef []float64) Arg {
	p := b.reg(b.Number(coef[0]))
	for _, k := range coef[1:] {
		p = b.mulAdd(p, x, b.Number(k))
	}
	return p
}

// reduced is x = n*log(2) + r with integer n; shifted holds n in its low bits.
type reduced struct{ n, r, shifted Arg }

func (b *Builder) reduce(x Arg) reduced {
	b.single()
	shifted := b.addMul(Const(shifter), x, Const(math.Log2E))
	n := b.Sub(shifted, Const(shifter))
	r := b.dedMul(b.dedMul(x, n, Const(ln2Hi)), n, Const(ln2Lo))
	return reduced{n, r, shifted}
}

// expm1Reduced returns exp(r)-1 for the reduced r.
func (b *Builder) expm1Reduced(r Arg) Arg { return b.mulAdd(b.horner(r, expCoef), b.Mul(r, r), r) }

// none is the absence of a correction.
var none = Arg{Reg: -1}

// Exp returns exp(x): overflow is +Inf, underflow zero.
func (b *Builder) Exp(x Arg) Arg {
	if b.double {
		return Double{b}.Exp(x)
	}
	return b.expPlus(b.reg(x), none)
}

// expPlus returns exp(x+low) where low, if any, is less than an ulp of x.
func (b *Builder) expPlus(x, low Arg) Arg {
	if b.Wide { // it scales in one instruction, whose mask makes zeros of what underflows without computing it
		d := b.reduce(b.two(Min, Const(89), x))
		return b.emit(Scale, NotLess, b.expReduced(d, low), d.n, x, Const(expLow))
	}
	d := b.reduce(b.clamp(x, expLow, 89))
	e := b.expReduced(d, low)
	// 2^n may be out of range although the result is not: two factors.
	k := b.two(SubInt, d.shifted, Const(shifter))
	half := b.emit(ShiftR, 1, k)
	for _, h := range []Arg{half, b.two(SubInt, k, half)} {
		e = b.Mul(e, b.emit(ShiftL, 23, b.two(AddInt, h, Bits(127))))
	}
	return b.And(e, b.Compare(NotLess, x, Const(expLow)))
}

// expReduced returns exp(r+low).
func (b *Builder) expReduced(d reduced, low Arg) Arg {
	r := d.r
	if low != none {
		r = b.Add(r, low)
	}
	return b.Add(b.expm1Reduced(r), Const(1))
}

// Expm1 returns exp(x)-1. With s = 2^(n-1) it is 2*(s*(exp(r)-1) + (s-1/2)), which is exact near zero and
// does not overflow early.
func (b *Builder) Expm1(x Arg) Arg {
	d := b.reduce(b.clamp(x, -30, 89))
	scale := b.two(AddInt, b.emit(ShiftL, 23, d.shifted), Bits(126<<23))
	p := b.mulAdd(b.expm1Reduced(d.r), scale, b.Sub(scale, Const(0.5)))
	return b.Add(p, p)
}

// Tanh returns e/(e+1) with the sign of x, for e = expm1(2|x|)/2: of |x|, with all that is twice something in
// Expm1's steps as the half of it, for which there are constants. The shifter has the exponent's bias in it,
// and one product reduces |x|: float32's log(2) is off by 2e-9, and where n is large tanh is near 1.
func (b *Builder) Tanh(x Arg) Arg {
	if b.double {
		return Double{b}.Tanh(x)
	}
	const biased = shifter + 127
	a := b.two(Min, Const(10), b.Abs(x))
	shifted := b.addMul(Const(biased), a, Const(2*math.Log2E))
	n := b.Sub(shifted, Const(biased))
	r := b.dedMul(a, n, Const(math.Ln2/2))
	coef := make([]float64, len(expCoef))
	for i, c := range expCoef {
		coef[i] = math.Ldexp(c, len(coef)-i)
	}
	e := b.mulAdd(b.horner(r, coef), b.Mul(r, r), r)
	scale := b.emit(ShiftL, 23, shifted)
	e = b.mulAdd(e, scale, b.addMul(Const(-0.5), scale, Const(0.5)))
	return b.signOf(b.Div(e, b.Add(e, Const(1))), x)
}

// sigmoidOfMinus returns 1/(1+exp(x)).
func (b *Builder) sigmoidOfMinus(x Arg) Arg { return b.Div(Const(1), b.Add(b.Exp(x), Const(1))) }

// Sigmoid returns 1/(1+exp(-x)).
func (b *Builder) Sigmoid(x Arg) Arg {
	if b.double {
		return Double{b}.Sigmoid(x)
	}
	return b.sigmoidOfMinus(b.Neg(x))
}

// SiLU returns x/(1+exp(-x)).
func (b *Builder) SiLU(x Arg) Arg {
	b.single()
	return b.Div(x, b.Add(b.Exp(b.Neg(x)), Const(1)))
}

// Rsqrt returns one over the square root.
func (b *Builder) Rsqrt(x Arg) Arg { return b.Div(b.Number(1), b.Sqrt(x)) }

// Reciprocal returns one over x.
func (b *Builder) Reciprocal(x Arg) Arg { return b.Div(b.Number(1), x) }

// Square returns x times itself.
func (b *Builder) Square(x Arg) Arg { return b.Mul(x, x) }

// ReLU returns the larger of x and 0, keeping NaN.
func (b *Builder) ReLU(x Arg) Arg {
	if b.double {
		return b.Max(x, b.Number(0))
	}
	return b.two(Max, Const(0), x)
}

// Log returns the natural logarithm.
func (b *Builder) Log(x Arg) Arg {
	if b.double {
		return Double{b}.Log(x)
	}
	return b.logPlus(x, none)
}

// logPlus returns the natural logarithm; low, if any, is a correction added to the result in the regular
// case.
func (b *Builder) logPlus(x, low Arg) Arg {
	b.single()
	// Denormals are scaled into the normal range first.
	const smallest = 1.17549435e-38
	scaled := b.choose(Less, x, Const(smallest), b.Mul(x, Const(1<<23)), x)
	// x = 2^e * m with m in [2/3,4/3): split at 2/3 by integer arithmetic.
	whole := b.emit(ShiftR, 23, b.two(SubInt, scaled, Const(2.0/3)))
	m := b.two(SubInt, scaled, b.emit(ShiftL, 23, whole))
	e := b.emit(FromInt, 0, whole)
	e = b.choose(Less, x, Const(smallest), b.Sub(e, Const(23)), e)
	f := b.Sub(m, Const(1))
	ff := b.Mul(f, f)
	p := b.Mul(b.horner(f, logCoef), f) // log(m) = f + ff*(p-1/2) + e*log(2)
	p = b.Sub(p, Const(0.5))
	tail := b.addMul(b.Mul(e, Const(ln2Lo)), ff, p)
	if low != none {
		tail = b.Add(tail, low)
	}
	return b.logSpecial(x, b.addMul(b.Add(f, tail), e, Const(ln2Hi)))
}

// logSpecial puts the values of log at zero, below zero and beyond the largest number into r.
func (b *Builder) logSpecial(x, r Arg) Arg {
	r = b.choose(Less, x, Const(math.Inf(1)), r, x) // +Inf and NaN are their own
	r = b.choose(Equal, x, Const(0), Const(math.Inf(-1)), r)
	return b.choose(Less, x, Const(0), Bits(0x7fc00000), r)
}

// Log1p adds what rounding 1+x lost to the logarithm of the rounded sum.
func (b *Builder) Log1p(x Arg) Arg {
	u := b.Add(x, Const(1))
	lost := b.Sub(x, b.Sub(u, Const(1)))
	return b.logPlus(u, b.Div(lost, u))
}

// Softplus returns max(x,0) + log1p(exp(-|x|)).
func (b *Builder) Softplus(x Arg) Arg {
	y := b.Log1p(b.Exp(b.Or(x, b.sign())))
	return b.Add(b.ReLU(x), y)
}

// normalTail returns q = erfc(z/sqrt(2))/2 and e = exp(-z^2/2), where z is |x|*sqrt(-2*rate) for a rate of
// -1/2 or
// -1, limited to where q is zero.
func (b *Builder) normalTail(x Arg, rate float64) (q, e Arg) {
	b.single()
	a := b.two(Min, Const(20), b.Abs(x))
	t := b.addMul(Const(1), a, Const(tailK*math.Sqrt(-2*rate)))
	t = b.Div(Const(1), t)
	// The square is split in two, for its rounding error grows with exp.
	square := b.Mul(a, a)
	low := b.emit(MulDed, 0, square, a, a)
	e = b.expPlus(b.Mul(square, Const(rate)), b.Mul(low, Const(rate)))
	return b.Mul(b.Mul(b.horner(t, tailCoef), t), e), e
}

// Erf takes an odd polynomial up to 1 and the tail beyond.
func (b *Builder) Erf(x Arg) Arg {
	if b.double {
		return Double{b}.Erf(x)
	}
	q, _ := b.normalTail(x, -1)
	large := b.Sub(Const(1), b.Add(q, q))
	large = b.signOf(large, x)
	small := b.Mul(b.horner(b.Mul(x, x), erfCoef), x)
	return b.choose(Less, b.Abs(x), Const(1), small, large)
}

// normalCDF returns the standard normal distribution function and exp(-x^2/2).
func (b *Builder) normalCDF(x Arg) (cdf, e Arg) {
	q, e := b.normalTail(x, -0.5)
	return b.choose(Less, x, Const(0), q, b.Sub(Const(1), q)), e
}

// GELU returns x times the normal distribution function.
func (b *Builder) GELU(x Arg) Arg {
	cdf, _ := b.normalCDF(x)
	return b.Mul(cdf, x)
}

// geluExponent returns -2u = x*(a + b*x^2), where the tanh form of GELU is x/(1+exp(-2u)).
func (b *Builder) geluExponent(x, xx Arg) Arg {
	b.single()
	return b.Mul(b.mulAdd(Const(-2*geluC0*geluC1), xx, Const(-2*geluC0)), x)
}

// GELUTanh is like GELU by its formula with tanh.
func (b *Builder) GELUTanh(x Arg) Arg {
	return b.Div(x, b.Add(b.Exp(b.geluExponent(x, b.Mul(x, x))), Const(1)))
}

// GELUTanhGrad returns dy times the derivative of GELUTanh.
func (b *Builder) GELUTanhGrad(x, dy Arg) Arg {
	x = b.clamp(x, -1e4, 1e4) // the derivative is constant there; avoids inf*0
	xx := b.Mul(x, x)
	p := b.sigmoidOfMinus(b.geluExponent(x, xx))
	du := b.mulAdd(Const(2*geluC0*3*geluC1), xx, Const(2*geluC0))
	return b.Mul(b.logisticGrad(p, b.Mul(x, du)), dy)
}

// GELUGrad returns dy times the derivative of GELU.
func (b *Builder) GELUGrad(x, dy Arg) Arg {
	cdf, e := b.normalCDF(x)
	density := b.Mul(e, Const(1/math.Sqrt(2*math.Pi)))
	return b.Mul(b.addMul(cdf, density, b.clamp(x, -20, 20)), dy)
}

// SiLUGrad returns dy times the derivative of SiLU.
func (b *Builder) SiLUGrad(x, dy Arg) Arg {
	x = b.clamp(x, -1e4, 1e4)
	return b.Mul(b.logisticGrad(b.Sigmoid(x), x), dy)
}

// SwiGLU returns SiLU of the gate times up.
func (b *Builder) SwiGLU(gate, up Arg) Arg { return b.Mul(b.SiLU(gate), up) }

// SwiGLUGrad returns dy times the derivatives of SwiGLU by the gate and by up.
func (b *Builder) SwiGLUGrad(gate, up, dy Arg) (dgate, dup Arg) {
	p := b.Sigmoid(gate)
	dup = b.Mul(b.Mul(p, gate), dy)
	return b.Mul(b.Mul(b.logisticGrad(p, b.clamp(gate, -1e4, 1e4)), up), dy), dup
}

// logisticGrad returns p + p*(1-p)*w, the derivative of x*p(z(x)) for a logistic p and w = x*z'(x).
func (b *Builder) logisticGrad(p, w Arg) Arg {
	b.single()
	rest := b.Sub(Const(1), p)
	return b.Mul(b.addMul(Const(1), rest, w), p)
}

// ToBF16 returns x as the nearest 16-bit float with 8 bits of exponent, as a 32-bit one.
func (b *Builder) ToBF16(x Arg) Arg {
	b.single()
	x = b.reg(x)
	odd := b.And(b.emit(ShiftR, 16, x), Bits(1))
	up := b.two(AddInt, b.two(AddInt, x, Bits(0x7fff)), odd)
	r := b.choose(Unordered, x, x, b.Or(x, Bits(0x400000)), up)
	return b.And(r, Bits(0xffff0000))
}

// ToF16 returns x as the nearest 16-bit float with 5 bits of exponent, as a 32-bit one.
func (b *Builder) ToF16(x Arg) Arg {
	b.single()
	return b.emit(ToHalf, 0, b.reg(x))
}
