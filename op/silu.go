package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// SiLU returns x·sigmoid(x), element by element. [Elfwing et al. 2018]
func SiLU(x *Tensor) *Tensor { return apply1(silu{}, x) }

type silu struct{ unary }

func (silu) Name() string { return "silu" }

func (silu) Decompose(in []*Tensor) []*Tensor { return []*Tensor{Mul(in[0], Sigmoid(in[0]))} }

func (silu) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(siluGrad{}, in[0], dy[0])}
}

func (silu) Work(in, out []Type) Work { return fusedWork(in, out) }

func (silu) Eval(env *Env, in, out []array.Array) {
	mapUnary(env, in, out, kernel.SiLU[float32], kernel.SiLU[float64])
}

func (silu) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.SiLU(in[0]) }

func (o silu) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

// siluGrad computes the gradient of silu from x and dy.
type siluGrad struct{ slope }

func (siluGrad) Name() string    { return "silu_grad" }
func (siluGrad) Linear() [][]int { return [][]int{{1}} }

func (siluGrad) Decompose(in []*Tensor) []*Tensor { return vjpByParts(silu{}, in[:1], in[1:]) }

func (o siluGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (siluGrad) Eval(env *Env, in, out []array.Array) {
	mapBinary(env, in, out, kernel.SiLUGrad[float32], kernel.SiLUGrad[float64])
}

func (siluGrad) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.SiLUGrad(in[0], in[1]) }

func (o siluGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}
