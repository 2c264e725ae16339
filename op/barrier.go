package op

import "github.com/galley-ml/galley/internal/hlo"

// Barrier returns x and hides from compilers that the result equals x, so that they do not merge computations
// on it with those on x. Recomputation in a backward pass relies on it: without it a compiler would keep the
// forward pass's values instead.
func Barrier(x *Tensor) *Tensor { return apply1(barrier{}, x) }

type barrier struct{ identity }

func (barrier) Name() string { return "barrier" }

// Fold keeps the op, because compilers must not see through it.
func (barrier) Fold([]*Tensor) *Tensor { return nil }

func (barrier) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("optimization_barrier", "", in[0].Type, in[0])}
}
