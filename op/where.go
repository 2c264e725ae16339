package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lane"
	"github.com/galley-ml/galley/mesh"
)

// Where returns x where cond is true and y elsewhere, all three broadcast together.
func Where(cond, x, y *Tensor) *Tensor { return apply1(where{}, cond, x, y) }

type where struct{ mover }

func (where) Name() string             { return "where" }
func (where) Linear() [][]int          { return [][]int{{1, 2}} }
func (where) Rule(in []Type) mesh.Rule { return broadcastRule(in) }
func (where) InPlace() []int           { return []int{1} }

func (where) Infer(in []Type) ([]Type, error) {
	if len(in) != 3 {
		return nil, fmt.Errorf("want 3 operands: got %d", len(in))
	}
	if in[0].DType != array.Bool {
		return nil, fmt.Errorf("want a condition of truth values: got %v", in[0])
	}
	if err := wantSame(in[1:], 2); err != nil {
		return nil, err
	}
	shape, err := broadcastShapes(in[0].Shape, in[1].Shape, in[2].Shape)
	if err != nil {
		return nil, err
	}
	return []Type{{DType: in[1].DType, Shape: shape}}, nil
}

func (where) VJP(in, _, dz []*Tensor) []*Tensor {
	if !dz[0].DType().IsFloat() {
		return []*Tensor{nil, nil, nil}
	}
	zero := Const(dz[0], 0)
	return []*Tensor{
		nil,
		SumTo(Where(in[0], dz[0], zero), in[1].Shape()),
		SumTo(Where(in[0], zero, dz[0]), in[2].Shape()),
	}
}

func (where) Eval(env *Env, in, out []array.Array) {
	switch out[0].DType().Size() {
	case 1:
		choose[uint8](env, in, out[0])
	case 2:
		choose[uint16](env, in, out[0])
	case 4:
		choose[uint32](env, in, out[0])
	case 8:
		choose[uint64](env, in, out[0])
	}
}

func choose[T bits](env *Env, in []array.Array, out array.Array) {
	dst := array.Raw[T](out)
	if len(dst) == 0 {
		return
	}
	z := newZipLoop(out.Shape(), in[0].Shape(), in[1].Shape(), in[2].Shape())
	cond, xs, ys := array.Data[bool](in[0]), array.Raw[T](in[1]), array.Raw[T](in[2])
	piece := func(at, n int, from []int) {
		chooseRun(dst[at:at+n], elemRun[bool]{cond[from[0]:], z.run[0]}, elemRun[T]{xs[from[1]:], z.run[1]},
			elemRun[T]{ys[from[2]:], z.run[2]})
	}
	z.each(env, func() func(at, n int, from []int) { return piece })
}

// elemRun is a run of adjacent elements or, with step 0, one element repeated.
type elemRun[T any] struct {
	elems []T
	step  int
}

// chooseRun has loops without index arithmetic for the common cases: all operands contiguous, or one of the
// choices a constant. Both choices are read before the condition, so that no branch depends on it.
func chooseRun[T bits](dst []T, cond elemRun[bool], x, y elemRun[T]) {
	c, xs, ys := cond.elems, x.elems, y.elems
	switch [3]int{cond.step, x.step, y.step} {
	case [3]int{1, 1, 1}:
		c, xs, ys = c[:len(dst)], xs[:len(dst)], ys[:len(dst)]
		for i := range dst {
			dst[i] = either(c[i], xs[i], ys[i])
		}
	case [3]int{1, 1, 0}:
		c, xs = c[:len(dst)], xs[:len(dst)]
		for i := range dst {
			dst[i] = either(c[i], xs[i], ys[0])
		}
	case [3]int{1, 0, 1}:
		c, ys = c[:len(dst)], ys[:len(dst)]
		for i := range dst {
			dst[i] = either(c[i], xs[0], ys[i])
		}
	default:
		for i := range dst {
			dst[i] = either(c[i*cond.step], xs[i*x.step], ys[i*y.step])
		}
	}
}

func either[T bits](cond bool, x, y T) T {
	if cond {
		y = x
	}
	return y
}

// Loop supports choices between floats; booleans use the op's own kernel.
func (where) Loop(in, _ []Type) (Loop, bool) {
	return Loop{Kind: LoopMap, Lane: func(b *lane.Builder, in []lane.Arg) lane.Arg {
		return b.Select(in[0], in[1], in[2])
	}}, floatInLane(in[1].DType)
}

func (where) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	c, x, y := emitBroadcast(w, in[0], out[0]), emitBroadcast(w, in[1], out[0]), emitBroadcast(w, in[2], out[0])
	return []hlo.Ref{w.Op("select", "", hloType(out[0]), c, x, y)}
}

func (where) Samples() []Sample {
	return []Sample{
		{In: []Arg{bools(5, 7), f32(5, 7), f32(5, 7)}},
		{In: []Arg{bools(5, 1), f32(2, 1, 7), f32()}},
		{In: []Arg{bools(5, 7), f32(), f32(5, 7)}},
		{In: []Arg{bools(7), i32Below(9, 5, 7), i32Below(9, 5, 1)}},
	}
}
