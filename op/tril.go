package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Tril returns x with zeros above the given diagonal of its last two dims: 0 is the main one, 1 the one above
// it.
func Tril(x *Tensor, diagonal int) *Tensor { return apply1(tril{Diagonal: diagonal}, x) }

type tril struct {
	triangle
	Diagonal int
}

func (tril) Name() string    { return "tril" }
func (tril) Linear() [][]int { return [][]int{{0}} }

func (o tril) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{Tril(dy[0], o.Diagonal)} }

func (o tril) Localize(at *Place) (Op, error) {
	return tril{Diagonal: localDiagonal(at, o.Diagonal)}, nil
}

func (o tril) Eval(env *Env, in, out []array.Array) {
	keepColumns(env, in, out, func(int) int { return 0 },
		func(row int) int { return row + near(o.Diagonal) + 1 })
}

func (o tril) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return emitTriangle(w, "LE", o.Diagonal, in[0])
}

func (tril) Samples() []Sample {
	return triangleSamples(func(diagonal int) Op { return tril{Diagonal: diagonal} })
}
