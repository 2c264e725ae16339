package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// LogSumExp returns log Σ exp(x) over dims, which are dropped; no dims means all. It does not overflow.
func LogSumExp(x *Tensor, dims ...int) *Tensor {
	return apply1(logSumExp{Dims: normDims(len(x.Shape()), dims)}, x)
}

type logSumExp struct{ Dims []int }

func (logSumExp) Name() string { return "logsumexp" }

func (o logSumExp) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return inferReduced(in, o.Dims, in[0].DType)
}

func (o logSumExp) VJP(in, y, dy []*Tensor) []*Tensor {
	x := in[0]
	weight := Exp(Sub(x, keepDims(aboveLowest(y[0]), x, o.Dims)))
	return []*Tensor{Mul(weight, keepDims(dy[0], x, o.Dims))}
}

// aboveLowest replaces a result of -Inf, which means that all elements are -Inf and have no weight, by a
// finite number. +Inf stays: the weights of infinite elements are undefined, so they get NaN, as in PyTorch.
func aboveLowest(y *Tensor) *Tensor { return Maximum(y, withinRange(Const(y, math.Inf(-1)))) }

// withinRange clamps infinities to the dtype's range, so that their differences are numbers.
func withinRange(x *Tensor) *Tensor {
	limit := math.MaxFloat64
	switch x.DType() {
	case array.F32:
		limit = math.MaxFloat32
	case array.BF16:
		limit = 0x1.fep127
	case array.F16:
		limit = 65504
	}
	return Minimum(Maximum(x, Const(x, -limit)), Const(x, limit))
}

func (o logSumExp) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], o.Dims...), in) }

func (o logSumExp) define(j joint, in []*Tensor) []*Tensor {
	x := in[0]
	m := withinRange(StopGradient(j.max(AMax(x, o.Dims...))))
	sum := j.sum(Sum(Exp(Sub(x, keepDims(m, x, o.Dims))), o.Dims...))
	return []*Tensor{Add(Log(sum), m)}
}

// CooperativeRule and Cooperate let devices split the dims.
func (o logSumExp) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o logSumExp) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.joint(0, o.Dims...), in)
}

func (o logSumExp) Rule(in []Type) mesh.Rule { return wholeReduceRule(len(in[0].Shape), o.Dims) }

func (logSumExp) Work(in, out []Type) Work {
	return Work{Flops: 3 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (o logSumExp) Eval(env *Env, in, out []array.Array) {
	float(out[0],
		func() { logSumExpOver[float32](env, in[0], out[0], o.Dims) },
		func() { logSumExpOver[float64](env, in[0], out[0], o.Dims) })
}

func logSumExpOver[T floats](env *Env, in, out array.Array, dims []int) {
	gs := groups(in.Shape(), dims)
	foldGroups(array.Data[T](out), array.Data[T](in), gs, func(dst, x []T, g group) {
		foldLines(env, x, g, func(at int, line []T) { dst[at] = kernel.LogSumExpRow(line) })
	})
}

func (o logSumExp) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (logSumExp) Samples() []Sample {
	return reductionSamples(f32, func(dims ...int) Op { return logSumExp{Dims: dims} })
}
