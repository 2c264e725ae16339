package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Ceil returns the smallest whole number not below each element.
func Ceil(x *Tensor) *Tensor { return apply1(ceil{}, x) }

type ceil struct {
	unary
	constantAlmostEverywhere
}

func (ceil) Name() string { return "ceil" }

func (ceil) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, each1(ceilOf[float32]), each1(ceilOf[float64]))
}

func ceilOf[T floats](x T) T { return T(math.Ceil(float64(x))) }

func (ceil) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Round(in[0], 2) }

func (ceil) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("ceil", "", in[0].Type, in[0])}
}

func (ceil) Samples() []Sample { return oneSample(f32In(-9, 9, 5, 7)) }
