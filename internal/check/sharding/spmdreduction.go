package sharding

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

type reduction func(x *op.Tensor, dims ...int) *op.Tensor

// reductionOps reduce dims. The recorded ones may keep them with size one, which is a reshape here.
func reductionOps() map[string]spmdOp {
	all := opTable{
		"p_norm":          buildNorm,
		"mean_all":        func(b *spmdBuild) []*op.Tensor { return only(op.Mean(b.float(0))) },
		"mean_all_grad":   buildMeanAllGrad,
		"squared_l2_norm": func(b *spmdBuild) []*op.Tensor { return buildReduction(b, sumSquares, array.F32) },
	}.ops()
	for name, f := range map[string]reduction{
		"sum": op.Sum, "mean": op.Mean, "prod": op.Prod, "max": op.AMax, "min": op.AMin, "amax": op.AMax,
		"amin":      op.AMin,
		"logsumexp": op.LogSumExp, "frobenius_norm": frobenius,
	} {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return buildReduction(b, f, array.F32) }}
		all[name+"_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return buildReductionGrad(b, f) }}
	}
	for _, name := range []string{"max_grad", "min_grad", "amax_grad", "amin_grad"} {
		all[name] = spmdOp{build: all[name].build,
			deviates: "elements that tie share the gradient here, so they are counted over the split dim first; " +
				"the recorded rule gives it to each"}
	}
	for name, f := range map[string]reduction{"all": op.AllOf, "any": op.AnyOf} {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor { return buildReduction(b, f, array.Bool) }}
	}
	return join(all, missing("the number of elements is known when a program is traced: it is no op", "numel"))
}

// buildReduction reduces the dims of attribute axis, or all.
func buildReduction(b *spmdBuild, f reduction, dtype array.DType) []*op.Tensor {
	x := b.param(0, dtype)
	y := f(x, b.reduced()...)
	if b.Attrs.bool("keep_dim") || b.Attrs.bool("keepdims") || b.Attrs.bool("keepdim") {
		y = op.KeepDims(y, x, b.reduced()...)
	}
	return only(y)
}

// reduced returns the dims that a reduction folds, counted from zero.
func (b *spmdBuild) reduced() []int {
	rank := len(b.Inputs[0].Shape)
	dims := b.Attrs.ints("axis")
	if b.Attrs.bool("reduce_all") || len(dims) == 0 {
		dims = nil
		for d := range rank {
			dims = append(dims, d)
		}
	}
	for i, d := range dims {
		if d < 0 {
			dims[i] = d + rank
		}
	}
	slices.Sort(dims)
	return dims
}

func sumSquares(x *op.Tensor, dims ...int) *op.Tensor { return op.Sum(op.Square(x), dims...) }

func frobenius(x *op.Tensor, dims ...int) *op.Tensor { return op.Sqrt(sumSquares(x, dims...)) }

// buildReductionGrad has the operands x, out if the recorded gradient reads it, and out_grad.
func buildReductionGrad(b *spmdBuild, f reduction) []*op.Tensor {
	x := b.float(0)
	y, dy := f(x, b.reduced()...), b.float(len(b.Inputs)-1)
	if y.Err() == nil && dy.Err() == nil && !y.Shape().Equal(dy.Shape()) {
		dy = op.Reshape(dy, y.Shape()...)
	}
	if len(b.Inputs) > 2 {
		return pullback(y, b.float(1), dy)[:1]
	}
	return gradients(y, dy, x)
}

func buildMeanAllGrad(b *spmdBuild) []*op.Tensor {
	return pullback(op.Mean(b.zeros(array.F32, b.shape(0)...)), nil, b.float(1))[:1]
}

// buildNorm returns the norm along one dim, or of all elements as one vector.
func buildNorm(b *spmdBuild) []*op.Tensor {
	x, dims := b.float(0), []int{b.Attrs.int("axis", -1)}
	if dims[0] < 0 {
		dims[0] += len(x.Shape())
	}
	if b.Attrs.bool("asvector") {
		dims = nil
		for d := range x.Shape() {
			dims = append(dims, d)
		}
	}
	y := op.Norm(x, b.Attrs.float("porder", 2), dims...)
	if b.Attrs.bool("keepdims") || b.Attrs.bool("keepdim") {
		y = op.KeepDims(y, x, dims...)
	}
	return only(y)
}
