package torchop

import "github.com/galley-ml/galley/op"

func activations() map[string]builder {
	t := map[string]builder{}
	unary(t, map[string]func(*op.Tensor) *op.Tensor{
		"tanh": op.Tanh, "sigmoid": op.Sigmoid, "relu": op.ReLU, "silu": op.SiLU, "selu": op.SELU,
		"relu6":       op.ReLU6,
		"hardsigmoid": op.HardSigmoid, "hardswish": op.HardSwish, "mish": op.Mish, "logsigmoid": op.LogSigmoid,
		"softsign": op.Softsign, "tanhshrink": op.TanhShrink,
	})
	t["gelu"] = func(a *attrs) Func {
		how := a.oneOf("approximate", "none", "tanh")
		return lift1(func(x *op.Tensor) *op.Tensor { return op.GELU(x, how) })
	}
	t["softplus"] = softplus
	t["elu"] = func(a *attrs) Func { return withNumber(op.ELU, a.float("alpha", 1)) }
	t["celu"] = func(a *attrs) Func { return withNumber(op.CELU, a.float("alpha", 1)) }
	t["leaky_relu"] = func(a *attrs) Func { return withNumber(op.LeakyReLU, a.float("negative_slope", 0.01)) }
	t["softshrink"] = func(a *attrs) Func { return withNumber(op.SoftShrink, a.lambda()) }
	t["hardshrink"] = func(a *attrs) Func { return withNumber(op.HardShrink, a.lambda()) }
	t["hardtanh"] = func(a *attrs) Func {
		return between(op.HardTanh, a.float("min_val", -1),
			a.float("max_val", 1))
	}
	t["threshold"] = func(a *attrs) Func {
		return between(op.Threshold, a.float("threshold", 0),
			a.float("value", 0))
	}
	t["glu"] = func(a *attrs) Func {
		dim := a.dim(-1)
		return lift1(func(x *op.Tensor) *op.Tensor { return op.GLU(x, dim) })
	}
	t["prelu"] = func(*attrs) Func { return lift2(op.PReLU) }
	t["swiglu"] = func(*attrs) Func { return lift2(op.SwiGLU) }
	t["softmax"] = func(a *attrs) Func { return along(op.Softmax, a.dim(-1)) }
	t["log_softmax"] = func(a *attrs) Func { return along(op.LogSoftmax, a.dim(-1)) }
	t["softmin"] = func(a *attrs) Func {
		return along(func(x *op.Tensor, d int) *op.Tensor { return op.Softmax(op.Neg(x), d) }, a.dim(-1))
	}
	alias(t, "log_sigmoid", "logsigmoid", "swish", "silu", "hard_sigmoid", "hardsigmoid", "hard_swish",
		"hardswish",
		"hard_tanh", "hardtanh")
	return t
}

func (a *attrs) lambda() float64 { return a.float("lambd", a.float("lambda", 0.5)) }

func withNumber(f func(x *op.Tensor, c float64) *op.Tensor, c float64) Func {
	return lift1(func(x *op.Tensor) *op.Tensor { return f(x, c) })
}

func between(f func(x *op.Tensor, a, b float64) *op.Tensor, a, b float64) Func {
	return lift1(func(x *op.Tensor) *op.Tensor { return f(x, a, b) })
}

func along(f func(x *op.Tensor, dim int) *op.Tensor, dim int) Func {
	return lift1(func(x *op.Tensor) *op.Tensor { return f(x, dim) })
}

// softplus returns log(1 + e^(beta·x))/beta, and x itself where beta·x is above the threshold.
func softplus(a *attrs) Func {
	beta, threshold := a.float("beta", 1), a.float("threshold", 20)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if beta == 1 && threshold == 20 { // the difference there is less than rounding
			return op.Softplus(x)
		}
		scaled := op.MulScalar(x, beta)
		return op.Where(op.Greater(scaled, op.Const(x, threshold)), x, op.MulScalar(op.Softplus(scaled), 1/beta))
	})
}
