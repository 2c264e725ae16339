package sharding

import (
	"math"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// elementwiseOps are elementwise functions of one or more tensors. Their gradients use the
// VJPs.
func elementwiseOps() map[string]spmdOp {
	all := opTable{
		"add_n": func(b *spmdBuild) []*op.Tensor {
			return only(op.AddN(b.floats(0,
				len(b.Inputs))...))
		},
		"where":             buildWhere,
		"where_grad":        buildWhereGrad,
		"dropout":           buildDropout,
		"dropout_grad":      func(b *spmdBuild) []*op.Tensor { return only(op.Mul(b.float(1), b.float(0))) },
		"fused_dropout_add": buildDropoutAdd,
		"full_like":         buildFullLike,
		"empty_like":        buildFullLike,
		"unary_grad":        func(b *spmdBuild) []*op.Tensor { return only(op.Neg(b.float(0))) },
		"swiglu":            func(b *spmdBuild) []*op.Tensor { return only(op.SwiGLU(b.float(0), b.float(1))) },
	}.ops()
	for name, f := range unaryOps() {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return only(f(b, b.float(0))) }}
		all[name+"_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return unaryGrad(b, f) }}
	}
	for name, f := range binaryOps() {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return only(f(b.float(0), b.float(1))) }}
		all["elementwise_"+name] = all[name]
		if !strings.Contains("less_than greater_than equal not_equal less_equal greater_equal", name) {
			all[name+"_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return binaryGrad(b, f) }}
		}
	}
	for name, f := range logicalOps() {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
			return only(f(b.param(0, array.Bool), b.param(1, array.Bool)))
		}}
	}
	return all
}

type unaryOp func(b *spmdBuild, x *op.Tensor) *op.Tensor

// plain returns a function without attributes.
func plain(f func(x *op.Tensor) *op.Tensor) unaryOp {
	return func(_ *spmdBuild, x *op.Tensor) *op.Tensor { return f(x) }
}

func unaryOps() map[string]unaryOp {
	return map[string]unaryOp{
		"abs": plain(op.Abs), "assign": plain(op.Identity), "ceil": plain(op.Ceil), "cos": plain(op.Cos),
		"erf": plain(op.Erf),
		"exp": plain(op.Exp), "expm1": plain(op.Expm1), "floor": plain(op.Floor), "log": plain(op.Log),
		"log1p":      plain(op.Log1p),
		"reciprocal": plain(op.Reciprocal), "relu": plain(op.ReLU), "rsqrt": plain(op.Rsqrt),
		"sigmoid": plain(op.Sigmoid),
		"sign":    plain(op.Sign), "silu": plain(op.SiLU), "swish": plain(op.SiLU), "sin": plain(op.Sin),
		"sqrt":   plain(op.Sqrt),
		"square": plain(op.Square), "tanh": plain(op.Tanh), "round": plain(op.Round),
		"softplus":          plain(op.Softplus),
		"elementwise_unary": plain(op.Tanh),
		"trunc": plain(func(x *op.Tensor) *op.Tensor {
			return op.Mul(op.Sign(x),
				op.Floor(op.Abs(x)))
		}),
		"cast": castUnary,
		"clip": func(b *spmdBuild, x *op.Tensor) *op.Tensor { return op.Clamp(x, -1, 1) },
		"gelu": func(b *spmdBuild, x *op.Tensor) *op.Tensor { return op.GELU(x, "none") },
		"pow": func(b *spmdBuild,
			x *op.Tensor) *op.Tensor {
			return op.Pow(x, b.Attrs.float("y", 2))
		},
		"scale": func(b *spmdBuild, x *op.Tensor) *op.Tensor {
			return op.AddScalar(op.MulScalar(x, b.Attrs.float("scale", 1)), b.Attrs.float("bias", 0))
		},
		"mish": plain(func(x *op.Tensor) *op.Tensor { return op.Mul(x, op.Tanh(op.Softplus(x))) }),
		"elu":  exponentialUnit, "celu": exponentialUnit, "selu": exponentialUnit,
		"stanh": func(b *spmdBuild, x *op.Tensor) *op.Tensor {
			return op.MulScalar(op.Tanh(op.MulScalar(x, b.Attrs.float("scale_a", 1))), b.Attrs.float("scale_b", 1))
		},
		"softshrink": func(b *spmdBuild, x *op.Tensor) *op.Tensor {
			return op.Sub(x, op.Clamp(x, -b.Attrs.float("threshold", 0.5), b.Attrs.float("threshold", 0.5)))
		},
		"thresholded_relu": func(b *spmdBuild, x *op.Tensor) *op.Tensor {
			return op.Where(op.Greater(x, op.Const(x, b.Attrs.float("threshold", 1))), x, op.ZerosLike(x))
		},
		"leaky_relu": func(b *spmdBuild, x *op.Tensor) *op.Tensor {
			return op.Maximum(x, op.MulScalar(x, b.Attrs.float("negative_slope", 0.01)))
		},
		"relu6": plain(func(x *op.Tensor) *op.Tensor { return op.Clamp(x, 0, 6) }),
		"logit": plain(func(x *op.Tensor) *op.Tensor { return op.Sub(op.Log(x), op.Log1p(op.Neg(x))) }),
	}
}

func castUnary(_ *spmdBuild, x *op.Tensor) *op.Tensor { return op.Cast(x, array.F64) }

// exponentialUnit returns x above zero and a·(exp(x/a) − 1) below.
func exponentialUnit(b *spmdBuild, x *op.Tensor) *op.Tensor {
	a := math.Max(b.Attrs.float("alpha", 1), 1e-3)
	low := op.MulScalar(op.Expm1(op.MulScalar(x, 1/a)), a)
	return op.MulScalar(op.Where(op.Greater(x, op.ZerosLike(x)), x, low), b.Attrs.float("scale", 1))
}

// unaryGrad has the operands of the recorded gradient: x or out, whichever exists, and out_grad, the
// last.
func unaryGrad(b *spmdBuild, f unaryOp) []*op.Tensor {
	dy := b.float(len(b.Inputs) - 1)
	if len(b.Inputs) == 1 {
		return only(pullback(f(b, b.zeros(array.F32, dy.Shape()...)), nil, dy)[0])
	}
	x := b.float(0)
	y := f(b, x)
	if y.DType() != dy.DType() {
		dy = op.Cast(dy, y.DType())
	}
	return gradients(y, dy, x)
}

func binaryOps() map[string]func(x, y *op.Tensor) *op.Tensor {
	return map[string]func(x, y *op.Tensor) *op.Tensor{
		"add": op.Add, "subtract": op.Sub, "multiply": op.Mul, "divide": op.Div, "maximum": op.Maximum,
		"minimum": op.Minimum,
		"fmax":    op.Maximum, "fmin": op.Minimum, "remainder": op.Mod, "less_than": op.Less,
		"greater_than": op.Greater,
		"less_equal":   op.LessEqual, "greater_equal": op.GreaterEqual, "equal": op.Equal, "not_equal": op.NotEqual,
	}
}

func binaryGrad(b *spmdBuild, f func(x, y *op.Tensor) *op.Tensor) []*op.Tensor {
	x, y := b.float(0), b.float(1)
	return gradients(f(x, y), b.float(len(b.Inputs)-1), x, y)
}

func logicalOps() map[string]func(x, y *op.Tensor) *op.Tensor {
	return map[string]func(x, y *op.Tensor) *op.Tensor{
		"logical_and": op.LogicalAnd, "logical_or": op.LogicalOr, "logical_xor": op.LogicalXor,
	}
}

func buildWhere(b *spmdBuild) []*op.Tensor {
	return only(op.Where(b.param(0, array.Bool), b.float(1), b.float(2)))
}

func buildWhereGrad(b *spmdBuild) []*op.Tensor {
	x, y := b.float(1), b.float(2)
	return gradients(op.Where(b.param(0, array.Bool), x, y), b.float(3), x, y)
}

func buildDropout(b *spmdBuild) []*op.Tensor {
	y := op.Dropout(b.float(0), op.Key{Seed: 1}, b.Attrs.float("p", 0.5))
	return []*op.Tensor{y, nil}
}

func buildDropoutAdd(b *spmdBuild) []*op.Tensor {
	y := op.Dropout(b.float(0), op.Key{Seed: 1}, b.Attrs.float("p", 0.5))
	return []*op.Tensor{op.Add(y, b.float(1)), nil}
}

// buildFullLike reads x to have the layout it has, though not its elements.
func buildFullLike(b *spmdBuild) []*op.Tensor { return only(op.MulScalar(b.float(0), 0)) }
