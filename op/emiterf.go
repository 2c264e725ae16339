package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// StableHLO has no erf. Near zero it is a power series in x²; from 1 on it is 1 - e^(-x²)·t·g(t) with t =
// 2/(2+x), where g is smooth and approximated by Chebyshev polynomials. From erfEnd on it is 1 in every
// dtype.
const erfEnd = 6

// erfTerms returns how many terms of the series and of the fit a dtype needs.
func erfTerms(d array.DType) (series, fit int) {
	if d == array.F64 {
		return 20, 24
	}
	return 11, 11
}

// emitErf writes the error function of float32 or float64.
func emitErf(w *hlo.Writer, x hlo.Ref) hlo.Ref {
	t := x.Type
	bin := func(name string, x, y hlo.Ref) hlo.Ref { return w.Op(name, "", t, x, y) }
	number := func(c float64) hlo.Ref { return w.Constant(t, c) }
	size, square := w.Op("abs", "", t, x), bin("multiply", x, x)
	terms, fit := erfTerms(t.DType)
	series := erfSeries(terms)
	near := number(series[terms-1])
	for i := terms - 2; i >= 0; i-- {
		near = bin("add", bin("multiply", near, square), number(series[i]))
	}
	near = bin("multiply", near, x)

	far := bin("minimum", size, number(erfEnd))
	at := bin("divide", number(2), bin("add", far, number(2)))
	low, high := erfRange()
	u := bin("divide", bin("subtract", at, number((high+low)/2)), number((high-low)/2))
	g := clenshaw(w, u, erfFit(fit))
	decay := w.Op("exponential", "", t, w.Op("negate", "", t, bin("multiply", far, far)))
	tail := bin("subtract", number(1), bin("multiply", bin("multiply", at, decay), g))
	tail = bin("multiply", tail, w.Op("sign", "", t, x))
	return w.Op("select", "", t, w.Compare("LT", size, number(1)), near, tail)
}

// erfSeries returns the coefficients of erf(x)/x in powers of x².
func erfSeries(n int) []float64 {
	c := make([]float64, n)
	power := 2 / math.SqrtPi
	for i := range c {
		c[i] = power / float64(2*i+1)
		power /= -float64(i + 1)
	}
	return c
}

// erfRange returns the range of t for x from erfEnd down to 1.
func erfRange() (low, high float64) { return 2.0 / (2 + erfEnd), 2.0 / 3 }

// erfFit returns n Chebyshev coefficients of g over its range.
func erfFit(n int) []float64 {
	const nodes = 64
	low, high := erfRange()
	c := make([]float64, n)
	for k := range nodes {
		angle := math.Pi * (float64(k) + 0.5) / nodes
		t := (high+low)/2 + (high-low)/2*math.Cos(angle)
		x := 2/t - 2
		g := math.Exp(x*x) * math.Erfc(x) / t
		for j := range c {
			c[j] += 2.0 / nodes * g * math.Cos(float64(j)*angle)
		}
	}
	c[0] /= 2
	return c
}

// clenshaw sums Chebyshev polynomials at u.
func clenshaw(w *hlo.Writer, u hlo.Ref, c []float64) hlo.Ref {
	t := u.Type
	two := w.Op("add", "", t, u, u)
	b1, b2 := w.Constant(t, c[len(c)-1]), w.Constant(t, 0)
	for i := len(c) - 2; i >= 0; i-- {
		by := two
		if i == 0 {
			by = u
		}
		next := w.Op("subtract", "", t, w.Op("multiply", "", t, by, b1), b2)
		b1, b2 = w.Op("add", "", t, next, w.Constant(t, c[i])), b1
	}
	return b1
}
