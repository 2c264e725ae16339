package op

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// GELU returns x·Φ(x), where Φ is the standard normal distribution function. Approximate is "none" for the
// exact function or "tanh" for the approximation with tanh. [Hendrycks and Gimpel 2016]
func GELU(x *Tensor, approximate string) *Tensor { return apply1(gelu{Approximate: approximate}, x) }

type gelu struct {
	unary
	// Approximate is none or tanh; empty means none.
	Approximate string
}

func (gelu) Name() string { return "gelu" }

func (o gelu) Infer(in []Type) ([]Type, error) {
	if err := wantApproximation(o.Approximate); err != nil {
		return nil, err
	}
	return o.unary.Infer(in)
}

func wantApproximation(a string) error {
	if a != "" && a != "none" && a != "tanh" {
		return fmt.Errorf("approximate is %q: want none or tanh", a)
	}
	return nil
}

func (o gelu) Decompose(in []*Tensor) []*Tensor {
	x := in[0]
	var e *Tensor
	if o.Approximate == "tanh" {
		cubic := Add(x, MulScalar(Mul(x, Square(x)), 0.044715))
		e = Tanh(MulScalar(cubic, math.Sqrt(2/math.Pi)))
	} else {
		e = Erf(MulScalar(x, 1/math.Sqrt2))
	}
	return []*Tensor{Mul(MulScalar(x, 0.5), AddScalar(e, 1))}
}

func (o gelu) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(geluGrad{Approximate: o.Approximate}, in[0], dy[0])}
}

func (gelu) Work(in, out []Type) Work { return fusedWork(in, out) }

func (o gelu) Eval(env *Env, in, out []array.Array) {
	if o.Approximate == "tanh" {
		mapUnary(env, in, out, kernel.GELUTanh[float32], kernel.GELUTanh[float64])
		return
	}
	mapUnary(env, in, out, kernel.GELU[float32], kernel.GELU[float64])
}

// Lane returns the same formula as Eval's kernels.
func (o gelu) Lane(b *lane.Builder, in []lane.Arg) lane.Arg {
	if o.Approximate == "tanh" {
		return b.GELUTanh(in[0])
	}
	return b.GELU(in[0])
}

func (o gelu) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (gelu) Samples() []Sample {
	return []Sample{
		{Op: gelu{Approximate: "none"}, In: []Arg{f32(5, 7)}},
		{Op: gelu{Approximate: "tanh"}, In: []Arg{f32(5, 7)}},
	}
}

// geluGrad computes the gradient of gelu from x and dy.
type geluGrad struct {
	slope
	Approximate string
}

func (geluGrad) Name() string    { return "gelu_grad" }
func (geluGrad) Linear() [][]int { return [][]int{{1}} }

func (o geluGrad) Infer(in []Type) ([]Type, error) {
	if err := wantApproximation(o.Approximate); err != nil {
		return nil, err
	}
	return o.slope.Infer(in)
}

func (o geluGrad) Decompose(in []*Tensor) []*Tensor {
	return vjpByParts(gelu{Approximate: o.Approximate}, in[:1], in[1:])
}

func (o geluGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (o geluGrad) Eval(env *Env, in, out []array.Array) {
	if o.Approximate == "tanh" {
		mapBinary(env, in, out, kernel.GELUTanhGrad[float32], kernel.GELUTanhGrad[float64])
		return
	}
	mapBinary(env, in, out, kernel.GELUGrad[float32], kernel.GELUGrad[float64])
}

func (o geluGrad) Lane(b *lane.Builder, in []lane.Arg) lane.Arg {
	if o.Approximate == "tanh" {
		return b.GELUTanhGrad(in[0], in[1])
	}
	return b.GELUGrad(in[0], in[1])
}

func (o geluGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (geluGrad) Samples() []Sample {
	return []Sample{
		{Op: geluGrad{Approximate: "none"}, In: []Arg{f32(5, 7), f32(5, 7)}},
		{Op: geluGrad{Approximate: "tanh"}, In: []Arg{f32(5, 7), f32(5, 7)}},
	}
}
