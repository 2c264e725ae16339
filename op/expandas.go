package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ExpandAs broadcasts x to the shape of y: dims are matched from the last, and a dim of size one is repeated.
// On a mesh, the result has the layout of y; y's elements are not read.
func ExpandAs(x, y *Tensor) *Tensor { return apply1(expandAs{}, x, y) }

type expandAs struct{ mover }

func (expandAs) Name() string    { return "expand_as" }
func (expandAs) Linear() [][]int { return [][]int{{0}} }

func (expandAs) Infer(in []Type) ([]Type, error) {
	if len(in) != 2 {
		return nil, fmt.Errorf("want 2 operands: got %d", len(in))
	}
	return expand{Shape: in[1].Shape}.Infer(in[:1])
}

func (expandAs) VJP(in, _, dy []*Tensor) []*Tensor {
	grads := []*Tensor{SumTo(dy[0], in[0].Shape()), nil}
	if in[1].DType().IsFloat() {
		grads[1] = ZerosLike(in[1])
	}
	return grads
}

func (expandAs) Rule(in []Type) mesh.Rule {
	y := factors(0, len(in[1].Shape))
	x := broadcastWord(in[0].Shape, in[1].Shape)
	return mesh.Rule(x + "," + y + "->" + y)
}

func (expandAs) Work(in, out []Type) Work { return Work{Bytes: moved(in[:1], out)} }

func (expandAs) Eval(env *Env, in, out []array.Array) { expand{}.Eval(env, in[:1], out) }

func (expandAs) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return expand{}.Emit(w, in[:1], out)
}

func (expandAs) Samples() []Sample {
	return []Sample{{In: []Arg{f32(5, 1, 6), f32(5, 7, 6)}}, {In: []Arg{f32(3), f32(4, 3)}}}
}
