package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// CumSum returns the cumulative sum along dim, including each element.
func CumSum(x *Tensor, dim int) *Tensor {
	return apply1(cumSum{Dim: normDim(len(x.Shape()), dim)}, x)
}

// CumSumReverse returns the sum of the elements from each one to the last along dim.
func CumSumReverse(x *Tensor, dim int) *Tensor {
	return apply1(cumSum{Dim: normDim(len(x.Shape()), dim), Reverse: true}, x)
}

type cumSum struct {
	Dim     int
	Reverse bool
}

func (cumSum) Name() string    { return "cumsum" }
func (cumSum) Linear() [][]int { return [][]int{{0}} }
func (cumSum) InPlace() []int  { return []int{0} }

func (o cumSum) Infer(in []Type) ([]Type, error) {
	if err := wantNumbers(in); err != nil {
		return nil, err
	}
	return []Type{in[0]}, wantDim(in[0], o.Dim)
}

func (o cumSum) VJP(_, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(cumSum{Dim: o.Dim, Reverse: !o.Reverse}, dy[0])}
}

func (o cumSum) Rule(in []Type) mesh.Rule { return alongRule(len(in[0].Shape), o.Dim) }
func (cumSum) Work(in, out []Type) Work   { return onePass(in, out) }

func (o cumSum) Eval(env *Env, in, out []array.Array) {
	switch in[0].DType() {
	case array.F32:
		cumSumOver[float32, float64](env, o, in[0], out[0])
	case array.F64:
		cumSumOver[float64, float64](env, o, in[0], out[0])
	case array.I64:
		cumSumOver[int64, int64](env, o, in[0], out[0])
	case array.I32:
		cumSumOver[int32, int32](env, o, in[0], out[0])
	case array.U8:
		cumSumOver[uint8, uint8](env, o, in[0], out[0])
	}
}

// cumSumOver sums elements of T in the wider type A.
func cumSumOver[T, A number](env *Env, o cumSum, in, out array.Array) {
	g := nestAlong(in.Shape(), o.Dim)
	x, dst := array.Data[T](in), array.Data[T](out)
	g.eachBlock(env, gatherBlock, func(outer, c, width int) {
		var acc [gatherBlock]A
		for k := range g.reduced {
			r := k
			if o.Reverse {
				r = g.reduced - 1 - k
			}
			at := (outer*g.reduced+r)*g.inner + c
			for j, v := range x[at : at+width] {
				acc[j] += A(v)
				dst[at+j] = T(acc[j])
			}
		}
	})
}

func (o cumSum) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	rank, n := len(in[0].Shape), in[0].Shape[o.Dim]
	if n == 0 {
		return in
	}
	win := window{size: ones(rank), stride: ones(rank), low: make([]int, rank), high: make([]int, rank)}
	win.size[o.Dim] = n
	if o.Reverse {
		win.high[o.Dim] = n - 1
	} else {
		win.low[o.Dim] = n - 1
	}
	return []hlo.Ref{emitWindow(w, "add", 0, in[0], win, out[0])}
}

func (cumSum) Samples() []Sample {
	return []Sample{
		{Op: cumSum{Dim: 1}, In: []Arg{f32(5, 7, 6)}},
		{Op: cumSum{Dim: 1, Reverse: true}, In: []Arg{f32(5, 7)}},
		{Op: cumSum{Dim: 0}, In: []Arg{f32(5, 40)}},
	}
}
