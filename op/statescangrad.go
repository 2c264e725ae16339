package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// stateScanGrad computes the gradients of all operands of state_scan from the operands and the gradients of
// its two results.
type stateScanGrad struct{ Chunk int }

func (stateScanGrad) Name() string       { return "state_scan_grad" }
func (stateScanGrad) NumResults(int) int { return 5 }
func (stateScanGrad) Linear() [][]int    { return [][]int{{5, 6}} }

func (o stateScanGrad) Infer(in []Type) ([]Type, error) {
	if len(in) != 7 {
		return nil, fmt.Errorf("want 7 operands: got %d", len(in))
	}
	out, err := stateScan(o).Infer(in[:5])
	if err != nil {
		return nil, err
	}
	for i, t := range in[5:] {
		if !t.Equal(out[i]) {
			return nil, fmt.Errorf("gradient %v: want %v", t, out[i])
		}
	}
	return in[:5], nil
}

func (o stateScanGrad) Decompose(in []*Tensor) []*Tensor {
	return vjpByParts(stateScan(o), in[:5], in[5:])
}

func (o stateScanGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// Rule sums over split heads, head dims and states for the operands that lack them.
func (stateScanGrad) Rule(in []Type) mesh.Rule {
	x, a, b, h, notes := scanWords(in)
	operands := x + "," + a + "," + b + "," + b + "," + h
	return mesh.Rule(operands + "," + x + "," + h + "->" + operands + notes)
}

// Work is that of the forward op, to recompute the states, and twice as much for the gradients.
func (stateScanGrad) Work(in, out []Type) Work {
	return Work{Flops: 16 * scanStates(in), Bytes: moved(in, out)}
}

func (o stateScanGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runStateScanGrad[float32](env, o, in, out) },
		func() { runStateScanGrad[float64](env, o, in, out) })
}

func runStateScanGrad[T floats](env *Env, o stateScanGrad, in, out []array.Array) {
	scanKernel[T](stateScan(o), in).Backward(env.Pool, kernel.StateScanGrad[T]{
		DY: array.Data[T](in[5]), DLast: array.Data[T](in[6]),
		DX: array.Data[T](out[0]), DA: array.Data[T](out[1]), DB: array.Data[T](out[2]),
		DC:     array.Data[T](out[3]),
		DFirst: array.Data[T](out[4]),
	})
}

func (o stateScanGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (stateScanGrad) Samples() []Sample {
	var samples []Sample
	for _, s := range (stateScan{}).Samples() {
		in := append(s.In, s.In[0], s.In[4])
		samples = append(samples, Sample{Op: stateScanGrad(s.Op.(stateScan)), In: in})
	}
	return samples
}
