package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// IsFinite returns true for elements that are neither infinite nor NaN.
func IsFinite(x *Tensor) *Tensor { return apply1(isFinite{}, x) }

type isFinite struct{ unary }

func (isFinite) Name() string                    { return "is_finite" }
func (isFinite) NoGradient() string              { return "its result is a truth value" }
func (isFinite) VJP(_, _, _ []*Tensor) []*Tensor { return []*Tensor{nil} }
func (isFinite) InPlace() []int                  { return []int{-1} }

func (isFinite) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 1); err != nil {
		return nil, err
	}
	return []Type{{DType: array.Bool, Shape: in[0].Shape}}, nil
}

func (isFinite) Eval(env *Env, in, out []array.Array) {
	float(in[0], func() { finiteElems[float32](env, out[0], in[0]) },
		func() { finiteElems[float64](env, out[0], in[0]) })
}

func finiteElems[T floats](env *Env, out, in array.Array) {
	dst, x := array.Data[bool](out), array.Data[T](in)
	env.split(len(dst), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = x[i]-x[i] == 0
		}
	})
}

func (isFinite) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("is_finite", "", hloType(out[0]), in[0])}
}
