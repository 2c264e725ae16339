package op

import "github.com/galley-ml/galley/internal/hlo"

// Barrier returns x, of which no compiler knows that it is: what is computed from it is not the same as what
// is computed from x. So a backward pass computes again what the forward pass has computed, in place of
// keeping it.
func Barrier(x *Tensor) *Tensor { return apply1(barrier{}, x) }

type barrier struct{ identity }

func (barrier) Name() string { return "barrier" }

// Fold keeps the op: not to be seen through is what it is for.
func (barrier) Fold([]*Tensor) *Tensor { return nil }

func (barrier) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("optimization_barrier", "", in[0].Type, in[0])}
}
