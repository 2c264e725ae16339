package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// expertsGrad computes the gradients of rows, weights, gateUp and down from the operands of experts and the
// gradient of its result.
type expertsGrad struct{ Offset, Total int }

func (expertsGrad) Name() string       { return "experts_grad" }
func (expertsGrad) NumResults(int) int { return 4 }
func (expertsGrad) Linear() [][]int    { return [][]int{{5}} }

func (o expertsGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 6 {
		return nil, fmt.Errorf("want 6 operands: got %d", len(in))
	}
	out, err := experts(o).Infer(in[:5])
	if err != nil {
		return nil, err
	}
	if !in[5].Equal(out[0]) {
		return nil, fmt.Errorf("gradient %v: want %v", in[5], out[0])
	}
	return []Type{in[0], in[2], in[3], in[4]}, nil
}

func (o expertsGrad) Decompose(in []*Tensor) []*Tensor {
	g := vjpByParts(experts(o), in[:5], in[5:])
	return []*Tensor{g[0], g[2], g[3], g[4]}
}

func (o expertsGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule sums as the forward op does, and also over parts of the result's width.
func (o expertsGrad) Rule(in []Type) mesh.Rule { return o.ruleOf(in, "E") }

func (expertsGrad) ruleOf(in []Type, expert string) mesh.Rule {
	x, choice, gateUp, down, y := expertWords(len(in[0].Shape), expert)
	return mesh.Rule(x + "," + choice + "," + choice + "," + gateUp + "," + down + "," + y + "->" + x + "," +
		choice + "," + gateUp + "," + down)
}

func (o expertsGrad) Localize(at *Place) (Op, error) {
	start, total := at.localRows(3, 0, o.Total)
	return expertsGrad{Offset: o.Offset + start, Total: total}, nil
}

// Work counts two products for each one of the forward op, two of which are recomputed.
func (o expertsGrad) Work(in, out []Type) Work {
	return Work{Flops: 16 * experts(o).pairs(in) * expertSize(in), Bytes: moved(in, out)}
}

func (o expertsGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runExpertsGrad[float32](env, o, in, out) },
		func() { runExpertsGrad[float64](env, o, in, out) })
}

func runExpertsGrad[T floats](env *Env, o expertsGrad, in, out []array.Array) {
	b, r := newExpertBank[T](env, in), newRouting(o, in[1], in[3].Shape()[0], o.Offset, o.Total)
	for _, a := range out {
		clear(a.Bytes())
	}
	x, weight, dy := array.Data[T](in[0]), array.Data[T](in[2]), array.Data[T](in[5])
	dx, dweight := array.Data[T](out[0]), array.Data[T](out[1])
	b.backward(env, r.lists, expertGrads[T]{array.Data[T](out[2]), array.Data[T](out[3])}, expertBackRows[T]{
		read: func(pair int, dst []T) { copy(dst, rowOf(x, pair/r.perRow, b.width)) },
		readDY: func(pair int, dst []T) T {
			copy(dst, rowOf(dy, pair/r.perRow, b.out))
			return weight[pair]
		},
		write: func(pair int, row []T, dw T) {
			addScaled(rowOf(dx, pair/r.perRow, b.width), 1, row)
			dweight[pair] = dw
		},
	})
}

func (o expertsGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (expertsGrad) Samples() []Sample {
	return []Sample{
		{In: append(expertsSample(4, 5, 3), f32(5, 3, 5))},
		{Op: expertsGrad{Offset: 2, Total: 7}, In: append(expertsSample(3, 8), f32(8, 5))},
	}
}
