package torchop

import (
	"encoding/json"
	"maps"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// reductions reduce dims and, with keepdim, keep them with size one; scans along one dim are here, too.
func reductions() map[string]builder {
	t := map[string]builder{}
	for name, f := range map[string]func(x *op.Tensor, dims ...int) *op.Tensor{
		"sum": op.Sum, "mean": op.Mean, "amax": op.AMax, "amin": op.AMin, "prod": op.Prod,
		"logsumexp": op.LogSumExp,
		"any":       op.AnyOf, "all": op.AllOf, "count_nonzero": countNonzero, "nansum": nanSum, "nanmean": nanMean,
	} {
		t[name] = func(a *attrs) Func { return a.reduce(f) }
	}
	t["var"] = func(a *attrs) Func { return a.reduce(a.variance()) }
	t["std"] = func(a *attrs) Func {
		f := a.variance()
		return a.reduce(func(x *op.Tensor, dims ...int) *op.Tensor { return op.Sqrt(f(x, dims...)) })
	}
	t["norm"] = norm("p")
	t["vector_norm"] = norm("ord")
	for name, f := range map[string]func(x *op.Tensor, dim int) *op.Tensor{"argmax": op.ArgMax,
		"argmin": op.ArgMin} {
		t[name] = arg(f)
	}
	for name, f := range map[string]func(x *op.Tensor, dim int) *op.Tensor{
		"cumsum": op.CumSum, "cumprod": op.CumProd, "logcumsumexp": op.LogCumSumExp,
	} {
		t[name] = func(a *attrs) Func { return along(f, a.dim(-1)) }
	}
	for name, f := range map[string]func(x *op.Tensor, dim int) (*op.Tensor, *op.Tensor){
		"cummax": op.CumMax, "cummin": op.CumMin,
	} {
		t[name] = func(a *attrs) Func {
			dim := a.dim(-1)
			return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) { return f(x, dim) })
		}
	}
	t["max"] = largest(op.AMax, op.ArgMax, op.Maximum)
	t["min"] = largest(op.AMin, op.ArgMin, op.Minimum)
	t["var_mean"] = func(a *attrs) Func { return a.withMean(func(v *op.Tensor) *op.Tensor { return v }) }
	t["std_mean"] = func(a *attrs) Func { return a.withMean(op.Sqrt) }
	t["aminmax"] = func(a *attrs) Func {
		second := attrs{raw: copied(a)}
		f, g := a.reduce(op.AMin), second.reduce(op.AMax)
		return Func{1, 1, func(in []*op.Tensor) []*op.Tensor { return append(f.Of(in), g.Of(in)...) }}
	}
	alias(t, "cumulative_sum", "cumsum", "max_values", "amax", "linalg_vector_norm", "vector_norm",
		"linalg.vector_norm",
		"vector_norm", "linalg_norm", "vector_norm", "linalg.norm", "vector_norm")
	return t
}

// reduce returns f over dim, or over all dims if it is omitted.
func (a *attrs) reduce(f func(x *op.Tensor, dims ...int) *op.Tensor) Func {
	over, keep := a.ints("dim", "axis"), a.bool("keepdim", false)
	return lift1(func(x *op.Tensor) *op.Tensor {
		y := f(x, over...)
		if keep {
			return op.KeepDims(y, x, over...)
		}
		return y
	})
}

// variance returns the sample variance by default, or another by either of PyTorch's attributes.
func (a *attrs) variance() func(x *op.Tensor, dims ...int) *op.Tensor {
	correction := 1.0
	if !a.bool("unbiased", true) {
		correction = 0
	}
	correction = a.float("correction", correction)
	return func(x *op.Tensor, dims ...int) *op.Tensor {
		switch correction {
		case 0:
			return op.Var(x, dims...)
		case 1:
			return op.SampleVar(x, dims...)
		}
		v := op.Var(x, dims...)
		if v.Err() != nil {
			return v
		}
		n := float64(x.Shape().Len()) / float64(max(1, v.Shape().Len()))
		return op.MulScalar(v, n/math.Max(0, n-correction))
	}
}

// withMean returns f of the variance, and the mean.
func (a *attrs) withMean(f func(v *op.Tensor) *op.Tensor) Func {
	second := attrs{raw: copied(a)}
	variance := a.variance()
	spread := a.reduce(func(x *op.Tensor, dims ...int) *op.Tensor { return f(variance(x, dims...)) })
	mean := second.reduce(op.Mean)
	return Func{1, 1, func(in []*op.Tensor) []*op.Tensor { return append(spread.Of(in), mean.Of(in)...) }}
}

// copied returns a copy of the attributes, for ops made of two functions.
func copied(a *attrs) map[string]json.RawMessage { return maps.Clone(a.raw) }

func norm(order string) builder {
	return func(a *attrs) Func {
		p := 2.0
		if string(a.raw[order]) == `"fro"` {
			delete(a.raw, order)
		}
		p = a.float(order, p)
		return a.reduce(func(x *op.Tensor, dims ...int) *op.Tensor { return op.Norm(x, p, dims...) })
	}
}

// arg returns the index of the first extreme along a dim, or among all elements if no dim is given.
func arg(f func(x *op.Tensor, dim int) *op.Tensor) builder {
	return func(a *attrs) Func {
		if !a.has("dim") && !a.has("axis") {
			a.never("dim", "axis")
			keep := a.bool("keepdim", false)
			return lift1(func(x *op.Tensor) *op.Tensor {
				y := f(op.Reshape(x, -1), 0)
				if keep {
					return op.KeepDims(y, x)
				}
				return y
			})
		}
		return a.reduce(func(x *op.Tensor, dims ...int) *op.Tensor { return f(x, dims[0]) })
	}
}

// largest returns PyTorch's max and min: of two tensors, of all elements, or along a dim with indices.
func largest(whole func(x *op.Tensor, dims ...int) *op.Tensor, where func(x *op.Tensor, dim int) *op.Tensor,
	pair func(x, y *op.Tensor) *op.Tensor) builder {
	return func(a *attrs) Func {
		if !a.has("dim") {
			a.never("dim", "keepdim")
			return liftSome(1, 2, func(in []*op.Tensor) *op.Tensor {
				if in[1] != nil {
					return pair(in[0], in[1])
				}
				return whole(in[0])
			})
		}
		dim, keep := a.dim(-1), a.bool("keepdim", false)
		return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) { // the gradient goes to the selected element
			at := where(x, dim)
			value := op.TakeAlongDim(x, op.KeepDims(at, x, dim), dim)
			if keep {
				return value, op.KeepDims(at, x, dim)
			}
			return op.Squeeze(value, dim), at
		})
	}
}

func countNonzero(x *op.Tensor, dims ...int) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Sum(op.Cast(op.NotEqual(x, op.ZerosLike(x)), array.I64), dims...)
}

// nanSum and nanMean leave NaN out.
func nanSum(x *op.Tensor, dims ...int) *op.Tensor {
	return op.Sum(op.Where(op.NotEqual(x, x), op.ZerosLike(x), x), dims...)
}

func nanMean(x *op.Tensor, dims ...int) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	return op.Div(nanSum(x, dims...), op.Sum(op.Cast(op.Equal(x, x), x.DType()), dims...))
}
