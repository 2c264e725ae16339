package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// SumSquares returns the sum of x² over all elements, its squared norm. For 16-bit floats it is float32.
func SumSquares(x *Tensor) *Tensor { return apply1(sumSquares{}, x) }

type sumSquares struct{}

func (sumSquares) Name() string { return "sum_squares" }

func (sumSquares) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return []Type{{DType: in[0].DType.Compute()}}, nil
}

func (sumSquares) Decompose(in []*Tensor) []*Tensor { return []*Tensor{Sum(Square(wide(in[0])))} }

func (sumSquares) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{Cast(Mul(wide(in[0]), MulScalar(dy[0], 2)), in[0].DType())}
}

func (sumSquares) Rule(in []Type) mesh.Rule { return mesh.Rule(factors(0, len(in[0].Shape)) + "->") }

func (sumSquares) Work(in, out []Type) Work {
	return Work{Flops: 2 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (sumSquares) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalSumSquares[float32](env, in[0], out[0]) },
		func() { evalSumSquares[float64](env, in[0], out[0]) })
}

func evalSumSquares[T floats](env *Env, in, out array.Array) {
	x := array.Data[T](in)
	leaf := func(lo, hi int) T { return kernel.SumSquares(x[lo:hi]) }
	array.Data[T](out)[0] = sumBlocks(env, len(x), func() func(lo, hi int) T { return leaf })
}

func (o sumSquares) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (sumSquares) Samples() []Sample {
	return []Sample{{In: []Arg{f32(5, 7)}}, {In: []Arg{f32(150, 140)}}, {In: []Arg{f32()}}}
}
