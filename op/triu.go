package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Triu returns x with zeros below the given diagonal of its last two dims: 0 is the main one, 1 the one above
// it.
func Triu(x *Tensor, diagonal int) *Tensor { return apply1(triu{Diagonal: diagonal}, x) }

type triu struct {
	triangle
	Diagonal int
}

func (triu) Name() string    { return "triu" }
func (triu) Linear() [][]int { return [][]int{{0}} }

func (o triu) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{Triu(dy[0], o.Diagonal)} }

func (o triu) Localize(at *Place) (Op, error) {
	return triu{Diagonal: localDiagonal(at, o.Diagonal)}, nil
}

func (o triu) Eval(env *Env, in, out []array.Array) {
	shape := out[0].Shape()
	keepColumns(env, in, out, func(row int) int { return row + near(o.Diagonal) },
		func(int) int { return shape[len(shape)-1] })
}

func (o triu) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitTriangle(w, "GE", o.Diagonal, in[0])
}

func (triu) Samples() []Sample {
	return triangleSamples(func(diagonal int) Op { return triu{Diagonal: diagonal} })
}
