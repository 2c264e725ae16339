package torchop

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// elements returns functions of each element, or of several broadcast together.
func elements() map[string]builder {
	t := map[string]builder{}
	unary(t, map[string]func(*op.Tensor) *op.Tensor{
		"exp": op.Exp, "log": op.Log, "sqrt": op.Sqrt, "rsqrt": op.Rsqrt, "sin": op.Sin, "cos": op.Cos,
		"abs": op.Abs,
		"neg": op.Neg, "erf": op.Erf, "square": op.Square, "reciprocal": op.Reciprocal, "log1p": op.Log1p,
		"expm1": op.Expm1, "sign": op.Sign, "floor": op.Floor, "ceil": op.Ceil, "logical_not": op.LogicalNot,
		"isfinite": op.IsFinite, "tan": op.Tan, "asin": op.Asin, "acos": op.Acos, "atan": op.Atan, "sinh": op.Sinh,
		"cosh": op.Cosh, "asinh": op.Asinh, "acosh": op.Acosh, "atanh": op.Atanh, "log2": op.Log2,
		"log10": op.Log10,
		"exp2":  op.Exp2, "trunc": op.Trunc, "frac": op.Frac, "clone": op.Identity,
		"isnan":      func(x *op.Tensor) *op.Tensor { return op.NotEqual(x, x) },
		"isinf":      func(x *op.Tensor) *op.Tensor { return op.Equal(op.Abs(x), op.Const(x, math.Inf(1))) },
		"erfc":       func(x *op.Tensor) *op.Tensor { return op.Sub(op.Const(x, 1), op.Erf(x)) },
		"zeros_like": op.ZerosLike,
		"ones_like":  op.OnesLike,
		"rad2deg":    func(x *op.Tensor) *op.Tensor { return op.MulScalar(x, 180/math.Pi) },
		"deg2rad":    func(x *op.Tensor) *op.Tensor { return op.MulScalar(x, math.Pi/180) },
	})
	binary(t, map[string]func(x, y *op.Tensor) *op.Tensor{
		"mul": op.Mul, "maximum": op.Maximum, "minimum": op.Minimum, "eq": op.Equal, "ne": op.NotEqual,
		"gt": op.Greater, "ge": op.GreaterEqual, "lt": op.Less, "le": op.LessEqual, "logical_and": op.LogicalAnd,
		"logical_or": op.LogicalOr, "logical_xor": op.LogicalXor, "remainder": remainder, "fmod": op.FMod,
		"atan2": op.Atan2, "logaddexp": op.LogAddExp,
		"hypot":        func(x, y *op.Tensor) *op.Tensor { return op.Sqrt(op.Add(op.Square(x), op.Square(y))) },
		"floor_divide": func(x, y *op.Tensor) *op.Tensor { return quotient(x, y, "floor") },
		"copysign": func(x, y *op.Tensor) *op.Tensor {
			return op.Where(op.Less(y, op.Const(y, 0)), op.Neg(op.Abs(x)), op.Abs(x))
		},
	})
	t["add"] = func(a *attrs) Func { return scaled(op.Add, a.float("alpha", 1)) }
	t["sub"] = func(a *attrs) Func { return scaled(op.Sub, a.float("alpha", 1)) }
	t["div"] = func(a *attrs) Func {
		mode := a.oneOf("rounding_mode", "", "trunc", "floor")
		return lift2(func(x, y *op.Tensor) *op.Tensor { return quotient(x, y, mode) })
	}
	t["pow"] = power
	t["round"] = round
	t["clamp"] = clamp
	t["where"] = func(*attrs) Func { return lift3(op.Where) }
	t["lerp"] = lerp
	t["addcmul"] = func(a *attrs) Func { return combined(op.Mul, a.float("value", 1)) }
	t["addcdiv"] = func(a *attrs) Func { return combined(op.Div, a.float("value", 1)) }
	t["nan_to_num"] = nanToNum
	t["masked_fill"] = func(a *attrs) Func {
		value := a.float("value", 0)
		return lift2(func(x, mask *op.Tensor) *op.Tensor { return op.Where(mask, op.Const(x, value), x) })
	}
	alias(t, "equal", "eq", "not_equal", "ne", "greater", "gt", "greater_equal", "ge", "less", "lt",
		"less_equal", "le",
		"is_finite", "isfinite", "multiply", "mul", "divide", "div", "true_divide", "div", "subtract", "sub",
		"absolute", "abs",
		"negative", "neg", "clip", "clamp", "fix", "trunc", "arctan", "atan", "arcsin", "asin", "arccos",
		"acos", "arctan2",
		"atan2", "arcsinh", "asinh", "arccosh", "acosh", "arctanh", "atanh", "sgn", "sign")
	return t
}

// scaled returns f of x and alpha·y.
func scaled(f func(x, y *op.Tensor) *op.Tensor, alpha float64) Func {
	return lift2(func(x, y *op.Tensor) *op.Tensor {
		if alpha != 1 {
			y = op.MulScalar(y, alpha)
		}
		return f(x, y)
	})
}

// quotient returns x/y, rounded by mode.
func quotient(x, y *op.Tensor, mode string) *op.Tensor {
	if mode == "" {
		return op.Div(x, y)
	}
	if x.Err() == nil && y.Err() == nil && x.DType().IsInt() && y.DType().IsInt() {
		return op.Div(op.Sub(x, map[string]func(x, y *op.Tensor) *op.Tensor{"floor": op.Mod,
			"trunc": op.FMod}[mode](x,
			y)), y)
	}
	if mode == "floor" {
		return op.Floor(op.Div(x, y))
	}
	return op.Trunc(op.Div(x, y))
}

// remainder returns the remainder with the sign of y, for integers and floats.
func remainder(x, y *op.Tensor) *op.Tensor {
	if x.Err() != nil || y.Err() != nil || !x.DType().IsFloat() {
		return op.Mod(x, y)
	}
	return op.Sub(x, op.Mul(op.Floor(op.Div(x, y)), y))
}

// power computes x to a constant, or to a tensor operand.
func power(a *attrs) Func {
	if !a.has("exponent") {
		delete(a.raw, "exponent")
		return lift2(op.PowTensor)
	}
	p := a.float("exponent", 1)
	return lift1(func(x *op.Tensor) *op.Tensor { return op.Pow(x, p) })
}

func round(a *attrs) Func {
	by := math.Pow(10, float64(a.int("decimals", 0)))
	return lift1(func(x *op.Tensor) *op.Tensor {
		if by == 1 {
			return op.Round(x)
		}
		return op.MulScalar(op.Round(op.MulScalar(x, by)), 1/by)
	})
}

// clamp clamps x between constants, or between tensor operands.
func clamp(a *attrs) Func {
	low, high := a.float("min", math.Inf(-1)), a.float("max", math.Inf(1))
	return liftSome(1, 3, func(in []*op.Tensor) *op.Tensor {
		x := in[0]
		if in[1] == nil {
			return op.Clamp(x, low, high)
		}
		// At the bounds themselves the gradient goes to x.
		x = op.Where(op.Less(x, in[1]), in[1], x)
		if in[2] != nil {
			x = op.Where(op.Greater(x, in[2]), in[2], x)
		}
		return x
	})
}

// lerp computes x + weight·(y − x), with a constant or a tensor as weight.
func lerp(a *attrs) Func {
	if a.has("weight") {
		w := a.float("weight", 0)
		return lift2(func(x, y *op.Tensor) *op.Tensor { return op.Add(x, op.MulScalar(op.Sub(y, x), w)) })
	}
	return lift3(func(x, y, w *op.Tensor) *op.Tensor { return op.Add(x, op.Mul(w, op.Sub(y, x))) })
}

// combined returns x + value·f(y, z).
func combined(f func(x, y *op.Tensor) *op.Tensor, value float64) Func {
	return lift3(func(x, y, z *op.Tensor) *op.Tensor { return op.Add(x, op.MulScalar(f(y, z), value)) })
}

// nanToNum replaces NaN and infinities by numbers; by default 0 and the largest of the dtype.
func nanToNum(a *attrs) Func {
	nan := a.float("nan", 0)
	high, low := a.float("posinf", math.NaN()), a.float("neginf", math.NaN())
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		most := math.MaxFloat64
		if x.DType() != array.F64 {
			most = math.MaxFloat32
		}
		up, down := high, low
		if math.IsNaN(up) {
			up = most
		}
		if math.IsNaN(down) {
			down = -most
		}
		y := op.Where(op.NotEqual(x, x), op.Const(x, nan), x)
		y = op.Where(op.Equal(x, op.Const(x, math.Inf(1))), op.Const(x, up), y)
		return op.Where(op.Equal(x, op.Const(x, math.Inf(-1))), op.Const(x, down), y)
	})
}
