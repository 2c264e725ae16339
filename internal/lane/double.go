package lane

import "math"

// Double writes formulas for lanes of 64 bits.
type Double struct{ b *Builder }

// NewDouble starts a formula of so many inputs.
func NewDouble(wide bool, inputs int) Double {
	b := NewBuilder(wide, inputs)
	b.double = true
	return Double{b}
}

// Builder returns what the formula is written with.
func (d Double) Builder() *Builder { return d.b }

// In returns an input.
func (d Double) In(i int) Arg { return d.b.In(i) }

// Code returns the list of what was written.
func (d Double) Code() []Instr { return d.b.Code }

// Polynomials from the highest power down.
var (
	// What log(1+f) is beyond f - f^2/2 + s*f^2/2 for s = f/(2+f), in s^2 without its constant: fdlibm's.
	logDoubleCoef = []float64{1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
		2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01}
	// (sin(r)-r)/r^3 and (cos(r)-1+r^2/2)/r^4 in r^2 on |r| <= pi/4: fdlibm's.
	sinCoef = []float64{1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
		-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01}
	cosCoef = []float64{-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
		2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02}
	// erf(x)/x in x^2 on |x| <= 1, to 2e-17.
	erfDoubleCoef = []float64{-7.77682913736281e-10, 1.3709519207384055e-08, -1.6205964194101388e-07,
		1.6447084274239356e-06, -1.4924708324571507e-05, 0.00012055293361789941, -0.0008548325921832884,
		0.005223977605955977, -0.026866170643090832, 0.1128379167094405, -0.37612638903183515, 1.1283791670955126}
	// exp(a^2)*erfc(a)/t in t = 1/(1+tailDoubleK*a) on 1 <= a <= 6, to 4e-18 of erf.
	tailDoubleCoef = []float64{-0.031130720649014405, 0.23813685088433584, -0.766262968193242,
		1.3588847459446853, -1.5662556182400027, 1.3646466750767587, -0.7334205322143543, 0.45917630351398225,
		0.005750871445027387, 0.174366098656484, 0.15718137184991207, 0.16968931055406875, 0.1692376064384868}
)

const (
	tailDoubleK = 0.3
	// shifterDouble added to a small float leaves its nearest integer in the low bits.
	shifterDouble = 0x1.8p52
	// The parts of a logarithm: exact products, and the rest.
	ln2HiDouble = 0x1.62e42feep-1
	ln2LoDouble = 0x1.a39ef35793c76p-33
	// The parts of half a turn's half, pi/2, of 53 bits each.
	quarter1 = 0x1.921fb54442d18p+0
	quarter2 = 0x1.1a62633145c07p-54
	quarter3 = -0x1.f1976b7ed8fbcp-110
	// expTerms is how many powers of r up to ln 2/2 count in exp(r)-1: r^15/15! does not.
	expTerms = 14

	oneBits      = 0x3ff0000000000000
	fractionBits = 1<<52 - 1
)

// MostTurn is the largest argument, without its sign, that the formulas of sine and cosine are for.
const MostTurn = 1 << 20

func (d Double) load(v float64) Arg          { return d.b.reg(d.b.Number(v)) }
func (d Double) plus(x Arg, v float64) Arg   { return d.b.Add(x, d.b.Number(v)) }
func (d Double) less(x Arg, v float64) Arg   { return d.b.Sub(x, d.b.Number(v)) }
func (d Double) times(x Arg, v float64) Arg  { return d.b.Mul(x, d.b.Number(v)) }
func (d Double) power(shifted Arg) Arg       { return d.intPlus(d.b.emit(ShiftL, 52, shifted), oneBits) }
func (d Double) intPlus(x Arg, v uint64) Arg { return d.b.two(AddInt, x, Bits64(v)) }

// expm1Series returns exp(r)-1.
func (d Double) expm1Series(r Arg) Arg {
	coef, f := make([]float64, expTerms-1), 1.0
	for n := 2; n <= expTerms; n++ {
		f *= float64(n)
		coef[expTerms-n] = 1 / f
	}
	q := d.b.horner(r, coef)
	return d.b.addMul(r, q, d.b.Mul(r, r))
}

// Exp returns exp(x): overflow is +Inf, underflow a denormal or zero.
func (d Double) Exp(x Arg) Arg {
	b := d.b
	x = b.clamp(x, -746, 710)
	n := d.less(b.addMul(b.Number(shifterDouble), x, b.Number(math.Log2E)), shifterDouble)
	r := b.dedMul(b.dedMul(x, n, b.Number(ln2HiDouble)), n, b.Number(ln2LoDouble))
	e := d.plus(d.expm1Series(r), 1)
	// 2^n may be out of range although the result is not: two factors.
	half := b.addMul(b.Number(shifterDouble), n, b.Number(0.5))
	rest := d.plus(b.Sub(n, d.less(half, shifterDouble)), shifterDouble)
	return b.Mul(b.Mul(e, d.power(half)), d.power(rest))
}

// Tanh returns t/(t+2) with t = exp(2|x|)-1, which is 2^n*p + (2^n - 1) with p = exp(r)-1 for the r that is
// left of 2|x|: it keeps all digits of small x.
func (d Double) Tanh(x Arg) Arg {
	b := d.b
	a := b.two(Min, b.Number(20), b.Abs(x)) // NaN stays
	v := b.Add(a, a)
	shifted := d.plus(d.times(v, math.Log2E), shifterDouble)
	n := d.less(shifted, shifterDouble)
	r := b.dedMul(b.dedMul(v, n, b.Number(ln2HiDouble)), n, b.Number(ln2LoDouble))
	scale := d.power(shifted)
	t := b.addMul(d.less(scale, 1), d.expm1Series(r), scale)
	return b.signOf(b.Div(t, d.plus(t, 2)), x)
}

// Sigmoid returns 1/(1+exp(-x)).
func (d Double) Sigmoid(x Arg) Arg {
	return d.b.Div(d.b.Number(1), d.plus(d.Exp(d.b.Neg(x)), 1))
}

// Log returns the natural logarithm, by fdlibm's formula.
func (d Double) Log(x Arg) Arg {
	b := d.b
	const smallest, half = 0x1p-1022, 0x3fe6a09e00000000 // about the square root of 1/2, as bits
	// Denormals are scaled into the normal range first.
	scaled := b.choose(Less, x, b.Number(smallest), d.times(x, 1<<54), x)
	// x = 2^e * m with m from sqrt(1/2) to sqrt(2), by integer arithmetic.
	split := d.intPlus(scaled, oneBits-half)
	m := d.intPlus(b.And(split, Bits64(fractionBits)), half)
	e := b.Or(b.emit(ShiftDown, 52, split), b.Number(1<<52)) // the float 2^52 + the exponent's bits
	e = d.less(e, 1<<52+1023)
	e = b.choose(Less, x, b.Number(smallest), d.less(e, 54), e)
	f := d.less(m, 1)
	halfSquare := d.times(b.Mul(f, f), 0.5)
	s := b.Div(f, d.plus(f, 2))
	z := b.Mul(s, s)
	rest := b.Mul(b.horner(z, logDoubleCoef), z)
	// e*ln2 + f - (f^2/2 - s*(f^2/2 + rest)), the small parts first
	low := b.addMul(d.times(e, ln2LoDouble), s, b.Add(halfSquare, rest))
	r := b.addMul(b.Sub(f, b.Sub(halfSquare, low)), e, b.Number(ln2HiDouble))
	r = b.choose(Less, x, b.Number(math.Inf(1)), r, x) // +Inf and NaN are their own
	r = b.choose(Equal, x, b.Number(0), b.Number(math.Inf(-1)), r)
	return b.choose(Less, x, b.Number(0), b.Number(math.NaN()), r)
}

// Erf takes an odd polynomial up to 1 and one minus the tail beyond.
func (d Double) Erf(x Arg) Arg {
	b := d.b
	a := b.two(Min, b.Number(6), b.Abs(x))
	t := b.Div(b.Number(1), b.addMul(b.Number(1), a, b.Number(tailDoubleK)))
	tail := b.Mul(b.horner(t, tailDoubleCoef), t)
	large := b.dedMul(b.Number(1), tail, d.Exp(b.Neg(b.Mul(a, a))))
	large = b.signOf(large, x)
	small := b.Mul(b.horner(b.Mul(x, x), erfDoubleCoef), x)
	return b.choose(Less, b.Abs(x), b.Number(1), small, large)
}

// turn splits x into n*pi/2 + r + low with integer n, which shifted has in its low bits.
func (d Double) turn(x Arg) (r, low, shifted Arg) {
	b := d.b
	shifted = b.addMul(b.Number(shifterDouble), x, b.Number(2/math.Pi))
	n := d.less(shifted, shifterDouble)
	first := b.dedMul(x, n, b.Number(quarter1))
	// first - n*quarter2 as a sum of two: what rounding the product and the difference loses is kept.
	product := d.times(n, quarter2)
	lost := b.emit(MulDed, 0, product, n, d.load(quarter2))
	r = b.Sub(first, product)
	back := b.Sub(r, first)
	low = b.Sub(b.Sub(first, b.Sub(r, back)), b.Add(product, back))
	low = b.dedMul(b.Sub(low, lost), n, b.Number(quarter3))
	return r, low, shifted
}

// Sin returns the sine, for up to MostTurn.
func (d Double) Sin(x Arg) Arg {
	r, low, shifted := d.turn(x)
	y := d.ofQuarter(r, low, shifted)
	return d.b.choose(Equal, x, d.b.Number(0), x, y) // the sign of zero
}

// Cos returns the cosine, for up to MostTurn.
func (d Double) Cos(x Arg) Arg {
	r, low, shifted := d.turn(x)
	return d.ofQuarter(r, low, d.intPlus(shifted, 1))
}

// ofQuarter returns the sine of r + low and as many quarter turns as the last two bits of n say.
func (d Double) ofQuarter(r, low, n Arg) Arg {
	b := d.b
	z := b.Mul(r, r)
	// The sine is r + (r^3*p + low*(1 - r^2/2)).
	half := d.times(z, 0.5)
	cube := b.Mul(z, r)
	sine := b.Add(r, b.addMul(b.dedMul(low, low, half), cube, b.horner(z, sinCoef)))
	// The cosine is (1 - r^2/2) + (what rounding that lost + r^4*p - r*low).
	w := b.Sub(b.Number(1), half)
	lost := b.Sub(b.Sub(b.Number(1), w), half)
	rest := b.addMul(lost, b.Mul(z, z), b.horner(z, cosCoef))
	cosine := b.Add(w, b.dedMul(rest, r, low))
	odd := b.emit(ShiftL, 63, n)
	y := b.Select(odd, cosine, sine)
	return b.Xor(y, b.And(b.emit(ShiftL, 62, n), b.sign()))
}
