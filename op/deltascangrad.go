package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// deltaScanGrad computes the gradients of all operands of delta_scan from the operands and the gradients of
// its two results.
type deltaScanGrad struct{ Chunk int }

func (deltaScanGrad) Name() string       { return "delta_scan_grad" }
func (deltaScanGrad) NumResults(int) int { return 7 }
func (deltaScanGrad) Linear() [][]int    { return [][]int{{7, 8}} }

func (o deltaScanGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 9 {
		return nil, fmt.Errorf("want 9 operands: got %d", len(in))
	}
	out, err := deltaScan(o).Infer(in[:7])
	if err != nil {
		return nil, err
	}
	for i, t := range in[7:] {
		if !t.Equal(out[i]) {
			return nil, fmt.Errorf("gradient %v: want %v", t, out[i])
		}
	}
	return in[:7], nil
}

func (o deltaScanGrad) Decompose(in []*Tensor) []*Tensor {
	return vjpByParts(deltaScan(o), in[:7], in[7:])
}

func (o deltaScanGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule sums over the parts of a split value dim for the operands that lack it.
func (deltaScanGrad) Rule([]Type) mesh.Rule {
	return mesh.Rule(deltaWords + ",bs*hp,bhpn*->" + deltaWords)
}

// Work is that of the forward op, to recompute the states, and twice as much for the gradients.
func (deltaScanGrad) Work(in, out []Type) Work {
	return Work{Flops: 27 * deltaStates(in), Bytes: moved(in, out)}
}

func (o deltaScanGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runDeltaScanGrad[float32](env, o, in, out) },
		func() { runDeltaScanGrad[float64](env, o, in, out) })
}

func runDeltaScanGrad[T floats](env *Env, o deltaScanGrad, in, out []array.Array) {
	to := func(i int) []T { return array.Data[T](out[i]) }
	deltaKernel[T](deltaScan(o), in).Backward(env.Pool, kernel.DeltaScanGrad[T]{
		DY: array.Data[T](in[7]), DLast: array.Data[T](in[8]),
		DR: to(0), DW: to(1), DK: to(2), DV: to(3), DA: to(4), DB: to(5), DFirst: to(6),
	})
}

func (o deltaScanGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (deltaScanGrad) Samples() []Sample {
	var samples []Sample
	for _, s := range (deltaScan{}).Samples() {
		in := append(s.In, s.In[3], s.In[6])
		samples = append(samples, Sample{Op: deltaScanGrad(s.Op.(deltaScan)), In: in})
	}
	return samples
}
