package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// SwiGLU returns silu(gate)·up elementwise, the activation of a gated feed-forward layer. [Shazeer 2020]
func SwiGLU(gate, up *Tensor) *Tensor { return apply1(swiglu{}, gate, up) }

type swiglu struct{ slope }

func (swiglu) Name() string    { return "swiglu" }
func (swiglu) Role() any       { return SwiGLURole{} }
func (swiglu) Linear() [][]int { return [][]int{{1}} }

// InPlace returns the gate: the kernel reads an element before it writes it.
func (swiglu) InPlace() []int { return []int{0} }

func (swiglu) Decompose(in []*Tensor) []*Tensor { return []*Tensor{Mul(SiLU(in[0]), in[1])} }

func (swiglu) VJP(in, _, dy []*Tensor) []*Tensor {
	return ir.Apply(swigluGrad{}, in[0], in[1], dy[0])
}

func (swiglu) Eval(env *Env, in, out []array.Array) {
	mapBinary(env, in, out, kernel.SwiGLU[float32], kernel.SwiGLU[float64])
}

func (o swiglu) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

// swigluGrad computes the gradients of gate and up from gate, up and dy.
type swigluGrad struct{}

func (swigluGrad) Name() string             { return "swiglu_grad" }
func (swigluGrad) Role() any                { return SwiGLUGradRole{} }
func (swigluGrad) Linear() [][]int          { return [][]int{{2}} }
func (swigluGrad) Rule(in []Type) mesh.Rule { return sameRule(len(in[0].Shape), 3, 2) }
func (swigluGrad) InPlace() []int           { return []int{0, 1} }
func (swigluGrad) NumResults(int) int       { return 2 }
func (swigluGrad) Work(in, out []Type) Work { return fusedWork(in, out) }
func (swigluGrad) Samples() []Sample        { return oneSample(f32(5, 7), f32(5, 7), f32(5, 7)) }

func (swigluGrad) Infer(in []Type) ([]Type, error) {
	if err := wantFloats(in, 3); err != nil {
		return nil, err
	}
	return []Type{in[0], in[1]}, wantSameShape(in)
}

func (swigluGrad) Decompose(in []*Tensor) []*Tensor { return vjpByParts(swiglu{}, in[:2], in[2:]) }

func (o swigluGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (swigluGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { swigluGradOver[float32](env, in, out) },
		func() { swigluGradOver[float64](env, in, out) })
}

func swigluGradOver[T floats](env *Env, in, out []array.Array) {
	gate, up, dy := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2])
	dgate, dup := array.Data[T](out[0]), array.Data[T](out[1])
	env.split(len(dgate), func(lo, hi int) {
		kernel.SwiGLUGrad(dgate[lo:hi], dup[lo:hi], gate[lo:hi], up[lo:hi], dy[lo:hi])
	})
}

func (o swigluGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}
