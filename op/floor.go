package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
)

// Floor returns the largest whole number not above each element.
func Floor(x *Tensor) *Tensor { return apply1(floor{}, x) }

type floor struct {
	unary
	constantAlmostEverywhere
}

func (floor) Name() string { return "floor" }

func (floor) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, each1(floorOf[float32]), each1(floorOf[float64]))
}

func floorOf[T floats](x T) T { return T(math.Floor(float64(x))) }

func (floor) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Round(in[0], 1) }

func (floor) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("floor", "", in[0].Type, in[0])}
}

func (floor) Samples() []Sample { return oneSample(f32In(-9, 9, 5, 7)) }
