package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Round rounds each element to the nearest integer, ties to even.
func Round(x *Tensor) *Tensor { return apply1(round{}, x) }

type round struct {
	unary
	constantAlmostEverywhere
}

func (round) Name() string { return "round" }

func (round) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, each1(roundOf[float32]), each1(roundOf[float64]))
}

func roundOf[T floats](x T) T { return T(math.RoundToEven(float64(x))) }

func (round) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Round(in[0], 0) }

func (round) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("round_nearest_even", "", in[0].Type, in[0])}
}

func (round) Samples() []Sample { return oneSample(f32In(-9, 9, 5, 7)) }
