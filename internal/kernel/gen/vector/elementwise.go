package main

import "github.com/galley-ml/galley/internal/lane"

// formula returns a function that emits the formula of one operand.
func (s isa) formula(f func(b *lane.Builder, x lane.Arg) lane.Arg) func(x vec) vec {
	return func(x vec) vec {
		b := lane.NewBuilder(s.wide(), 1)
		y := f(b, b.In(0))
		return s.emit(b.Code, []vec{x}, y)[0]
	}
}

// formula2 is like formula for two operands.
func (s isa) formula2(f func(b *lane.Builder, x, y lane.Arg) lane.Arg) func(x, y vec) vec {
	return func(x, y vec) vec {
		b := lane.NewBuilder(s.wide(), 2)
		z := f(b, b.In(0), b.In(1))
		return s.emit(b.Code, []vec{x, y}, z)[0]
	}
}

func (s isa) exp(x vec) vec  { return s.formula((*lane.Builder).Exp)(x) }
func (s isa) sqrt(x vec) vec { return s.formula((*lane.Builder).Sqrt)(x) }

// unary emits dst[i] = f(x[i]).
func (s isa) unary(name string, f func(x vec) vec) {
	element := "float32"
	if s.double {
		element = "float64"
	}
	s.function(name, "(dst, x []"+element+")")
	s.loop(2, []string{"dst", "x"}, func(t step) { t.out("dst", f(t.in("x"))) })
	finish()
}

func (s isa) unaryKernels() {
	for _, k := range []struct {
		name string
		f    func(b *lane.Builder, x lane.Arg) lane.Arg
	}{
		{"exp", (*lane.Builder).Exp}, {"log", (*lane.Builder).Log}, {"tanh", (*lane.Builder).Tanh},
		{"erf", (*lane.Builder).Erf}, {"expm1", (*lane.Builder).Expm1}, {"log1p", (*lane.Builder).Log1p},
		{"softplus", (*lane.Builder).Softplus}, {"sigmoid", (*lane.Builder).Sigmoid},
		{"silu", (*lane.Builder).SiLU}, {"gelu", (*lane.Builder).GELU}, {"geluTanh", (*lane.Builder).GELUTanh},
		{"sqrt", (*lane.Builder).Sqrt}, {"rsqrt", (*lane.Builder).Rsqrt},
		{"reciprocal", (*lane.Builder).Reciprocal}, {"neg", (*lane.Builder).Neg}, {"abs", (*lane.Builder).Abs},
		{"square", (*lane.Builder).Square}, {"relu", (*lane.Builder).ReLU},
	} {
		s.unary(k.name, s.formula(k.f))
	}
}

// doubleKernels emits the element functions of float64.
func (s isa) doubleKernels() {
	for _, k := range []struct {
		name string
		f    func(d lane.Double, x lane.Arg) lane.Arg
	}{
		{"exp", lane.Double.Exp}, {"log", lane.Double.Log}, {"tanh", lane.Double.Tanh},
		{"sigmoid", lane.Double.Sigmoid}, {"erf", lane.Double.Erf}, {"sin", lane.Double.Sin},
		{"cos", lane.Double.Cos},
	} {
		s.unary(k.name, func(x vec) vec {
			d := lane.NewDouble(s.wide(), 1)
			y := k.f(d, d.In(0))
			return s.emit(d.Code(), []vec{x}, y)[0]
		})
	}
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
	s.binary("max", s.formula2((*lane.Builder).Max))
	s.binary("min", s.formula2((*lane.Builder).Min))
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
	s.binary("geluTanhGrad", s.formula2((*lane.Builder).GELUTanhGrad))
	s.binary("geluGrad", s.formula2((*lane.Builder).GELUGrad))
	s.binary("siluGrad", s.formula2((*lane.Builder).SiLUGrad))
	s.binary("swiGLU", s.formula2((*lane.Builder).SwiGLU))
	s.function("swiGLUGrad", "(dgate, dup, gate, up, dy []float32)")
	s.loop(1, []string{"dgate", "dup", "gate", "up", "dy"}, func(t step) {
		b := lane.NewBuilder(s.wide(), 3)
		dgate, dup := b.SwiGLUGrad(b.In(0), b.In(1), b.In(2))
		out := s.emit(b.Code, []vec{t.in("gate"), t.in("up"), t.in("dy")}, dgate, dup)
		t.out("dgate", out[0])
		t.out("dup", out[1])
	})
	finish()
}
