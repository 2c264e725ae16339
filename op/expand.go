package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Expand broadcasts x to shape: dims are matched from the last, and a dim of size one is repeated.
func Expand(x *Tensor, shape ...int) *Tensor {
	if x.Err() == nil && x.Shape().Equal(shape) {
		return x
	}
	return apply1(expand{Shape: shape}, x)
}

type expand struct {
	mover
	Shape []int
}

func (expand) Name() string    { return "expand" }
func (expand) Linear() [][]int { return [][]int{{0}} }

func (o expand) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	shape, err := broadcastShapes(in[0].Shape, o.Shape)
	if err != nil || !shape.Equal(o.Shape) || !shape.Valid() {
		return nil, fmt.Errorf("cannot repeat %v to %v", in[0], array.Shape(o.Shape))
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (expand) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{SumTo(dy[0], in[0].Shape())}
}

func (o expand) Rule(in []Type) mesh.Rule {
	// A repeated dim of the result has a factor that no operand has, so it may be split freely.
	return mesh.Rule(broadcastWord(in[0].Shape, o.Shape) + "->" + broadcastWord(o.Shape, o.Shape))
}

func (expand) Localize(at *Place) (Op, error) { return expand{Shape: at.OutShape(0)}, nil }

func (o expand) Eval(env *Env, in, out []array.Array) {
	from := strided{Array: in[0], strides: broadcastStrides(in[0].Shape(), out[0].Shape())}
	moveStrided(env, out[0].Shape(), whole(out[0]), from)
}

func (expand) Loop(_, _ []Type) (Loop, bool) { return Loop{Kind: LoopRepeat}, true }

func (expand) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return []hlo.Ref{emitBroadcast(w, in[0], out[0])}
}

func (expand) Samples() []Sample {
	return []Sample{
		{Op: expand{Shape: []int{5, 7, 6}}, In: []Arg{f32(5, 1, 6)}},
		{Op: expand{Shape: []int{4, 3}}, In: []Arg{f32(3)}},
	}
}
