package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/lane"
)

// Square returns x².
func Square(x *Tensor) *Tensor { return apply1(square{}, x) }

type square struct{ numeric }

func (square) Name() string { return "square" }

func (square) VJP(x, _, dy []*Tensor) []*Tensor { return []*Tensor{Mul(dy[0], MulScalar(x[0], 2))} }

// expand computes each product of two derivatives once.
func (square) expand(k int, in []*series, _ *series) *Tensor {
	x := in[0]
	var sum *Tensor
	for i := 0; 2*i < k; i++ {
		if a, b := x.at(i), x.at(k-i); a != nil && b != nil {
			sum = sumOf(sum, times(Mul(a, b), 2*binomial(k, i)))
		}
	}
	if h := x.at(k / 2); k%2 == 0 && h != nil {
		sum = sumOf(sum, times(Square(h), binomial(k, k/2)))
	}
	return sum
}

func (square) Eval(env *Env, in, out []array.Array) {
	kernels1{
		kernel.Square[float32], kernel.Square[float64],
		each1(squareInt[int64]), each1(squareInt[int32]), each1(squareInt[uint8]),
	}.run(env, in, out)
}

func squareInt[T integer](x T) T { return x * x }

func (square) Lane(b *lane.Builder, in []lane.Arg) lane.Arg { return b.Square(in[0]) }

func (square) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	return []hlo.Ref{w.Op("multiply", "", in[0].Type, in[0], in[0])}
}
