package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// triangle is embedded by ops that keep a part of each matrix, in the last two dims, and clear the rest.
type triangle struct{ mover }

func (triangle) InPlace() []int { return []int{0} }

func (triangle) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if len(in[0].Shape) < 2 {
		return nil, fmt.Errorf("want a matrix or a batch of them: got %v", in[0])
	}
	return []Type{in[0]}, nil
}

func (triangle) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 1, 1) }

// farDiagonal is beyond any matrix.
const farDiagonal = math.MaxInt / 4

// near clamps a diagonal to ±farDiagonal, so that arithmetic on it does not overflow.
func near(diagonal int) int { return min(max(diagonal, -farDiagonal), farDiagonal) }

// localDiagonal returns the diagonal of a shard, which depends on the shard's first row and column.
func localDiagonal(at *Place, diagonal int) int {
	rank := len(at.In[0].Shape)
	return near(diagonal) + at.InRange(0, rank-2).Start - at.InRange(0, rank-1).Start
}

// keepColumns copies the columns from lo(row) to before hi(row) of each row of each matrix, and clears the
// rest.
func keepColumns(env *Env, in, out []array.Array, lo, hi func(row int) int) {
	shape := out[0].Shape()
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	if shape.Len() == 0 {
		return
	}
	width := cols * out[0].DType().Size()
	size := out[0].DType().Size()
	dst, src := out[0].Bytes(), in[0].Bytes()
	env.rows(shape.Len()/cols, cols, func(first, last int) {
		for r := first; r < last; r++ {
			to, from := dst[r*width:(r+1)*width], src[r*width:(r+1)*width]
			a := min(max(lo(r%rows), 0), cols) * size
			b := max(min(hi(r%rows), cols)*size, a)
			clear(to[:a])
			copy(to[a:b], from[a:b])
			clear(to[b:])
		}
	})
}

// emitTriangle keeps the elements where column − row compares with diagonal in the given direction.
func emitTriangle(w *hlo.Writer, direction string, diagonal int, x hlo.Ref) []hlo.Ref {
	rank := len(x.Shape)
	index := hlo.Type{DType: array.I64, Shape: x.Shape}
	row, col := emitIota(w, index, rank-2), emitIota(w, index, rank-1)
	keep := emitCompare(w, direction, w.Op("subtract", "", index, col, row),
		w.Constant(index, float64(near(diagonal))))
	return []hlo.Ref{w.Op("select", "", x.Type, keep, x, w.Constant(x.Type, 0))}
}

func triangleSamples(with func(diagonal int) Op) []Sample {
	return []Sample{
		{Op: with(0), In: []Arg{f32(5, 7)}},
		{Op: with(-1), In: []Arg{f32(5, 7)}},
		{Op: with(2), In: []Arg{f32(3, 7, 5)}},
		{Op: with(-math.MaxInt32), In: []Arg{f32(3, 4)}},
	}
}
