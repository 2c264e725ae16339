package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// layerNormGrad computes the gradients of x, gamma and beta from x, gamma, the result's gradient and each
// row's mean and 1/standard deviation. Its own gradient treats these five as independent; that mean and rstd
// depend on x is accounted for by layer_norm's gradient.
type layerNormGrad struct{}

func (layerNormGrad) Name() string   { return "layer_norm_grad" }
func (layerNormGrad) InPlace() []int { return []int{2, -1, -1} }

func (layerNormGrad) Infer(in []Type) ([]Type, error) {
	if err := inferNormGrad(in, 5); err != nil {
		return nil, err
	}
	return []Type{in[0], in[1], in[1]}, nil
}

// inferNormGrad checks x, gamma, dy and the saved statistics of each row.
func inferNormGrad(in []Type, n int) error {
	if err := wantCompute(in, n); err != nil {
		return err
	}
	if err := inferNorm(in[:2], 2); err != nil {
		return err
	}
	if !in[2].Shape.Equal(in[0].Shape) {
		return fmt.Errorf("gradient %v does not fit %v", in[2], in[0])
	}
	for _, t := range in[3:] {
		if !t.Shape.Equal(statOf(in[0]).Shape) {
			return fmt.Errorf("row statistics %v do not fit %v", t, in[0])
		}
	}
	return nil
}

func (o layerNormGrad) Decompose(in []*Tensor) []*Tensor { return o.define(alone(in[0], -1), in) }

func (layerNormGrad) define(j joint, in []*Tensor) []*Tensor {
	x, gamma, dy := wide(in[0]), wide(in[1]), wide(in[2])
	rstd := lastOf(wide(in[4]), x)
	h, g := Mul(Sub(x, lastOf(wide(in[3]), x)), rstd), Mul(dy, gamma)
	sums := j.sums(Sum(g, -1), Sum(Mul(g, h), -1))
	mean := func(i int) *Tensor { return lastOf(MulScalar(sums[i], 1/float64(j.total)), x) }
	dx := Mul(rstd, Sub(Sub(g, mean(0)), Mul(h, mean(1))))
	dgamma, dbeta := SumTo(Mul(dy, h), gamma.Shape()), SumTo(dy, gamma.Shape())
	return []*Tensor{Cast(dx, in[0].DType()), Cast(dgamma, in[1].DType()), Cast(dbeta, in[1].DType())}
}

func (o layerNormGrad) VJP(in, _, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

func (layerNormGrad) Rule(in []Type) mesh.Rule {
	word, lead := lastWhole(in[0].Shape)
	last := word[len(lead):]
	return mesh.Rule(word + "," + last + "," + word + "," + lead + "," + lead + "->" + word + "," + last + "," +
		last)
}

// CooperativeRule and Cooperate let devices split the last dim.
func (o layerNormGrad) CooperativeRule(in []Type) CooperativeRule {
	return CooperativeRule{Rule: jointRule(o.Rule(in))}
}

func (o layerNormGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	return o.define(at.lastJoint(), in)
}

func (layerNormGrad) Work(in, out []Type) Work {
	return Work{Flops: 14 * float64(in[0].Shape.Len()), Bytes: moved(in, out)}
}

func (layerNormGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { evalLayerNormGrad[float32](env, in, out) },
		func() { evalLayerNormGrad[float64](env, in, out) })
}

func evalLayerNormGrad[T floats](env *Env, in, out []array.Array) {
	rows, n := rowsOf(in[0].Shape())
	x, gamma, dy := array.Data[T](in[0]), array.Data[T](in[1]), array.Data[T](in[2])
	mean, rstd, dx := array.Data[T](in[3]), array.Data[T](in[4]), array.Data[T](out[0])
	sumRowBlocks(env, rows, n, [][]T{array.Data[T](out[1]), array.Data[T](out[2])}, func(i int, acc [][]T) {
		lo, hi := i*n, (i+1)*n
		kernel.LayerNormGradRow(dx[lo:hi], acc[0], acc[1], x[lo:hi], gamma, dy[lo:hi], mean[i], rstd[i])
	})
}

// normBlock is the number of rows that share one partial sum of a weight's gradient. It is fixed, so that the
// order of sums does not depend on threads.
const normBlock = 64

// sumRowBlocks calls add for every row i with accumulators of n elements, one for each of dst, and writes the
// totals to dst.
func sumRowBlocks[T floats](env *Env, rows, n int, dst [][]T, add func(i int, acc [][]T)) {
	for _, d := range dst {
		clear(d)
	}
	if rows == 0 || n == 0 {
		return
	}
	blocks := (rows + normBlock - 1) / normBlock
	partial := make([][]T, len(dst))
	for j := range partial {
		partial[j] = make([]T, blocks*n)
	}
	env.Pool.For(blocks, 1, func(lo, hi int) {
		acc := make([][]T, len(dst))
		for b := lo; b < hi; b++ {
			for j := range acc {
				acc[j] = partial[j][b*n : (b+1)*n]
			}
			for i := b * normBlock; i < min(rows, (b+1)*normBlock); i++ {
				add(i, acc)
			}
		}
	})
	env.Pool.For(n, columnBlock, func(lo, hi int) {
		for j, d := range dst {
			kernel.AddRowsStride(d[lo:hi], partial[j][lo:], blocks, n)
		}
	})
}

func (o layerNormGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (layerNormGrad) Samples() []Sample {
	return []Sample{
		{In: []Arg{f32(5, 7, 6), f32(6), f32(5, 7, 6), f32(5, 7), f32In(0.5, 2, 5, 7)}},
		{In: []Arg{f32(150, 19), f32(19), f32(150, 19), f32(150), f32In(0.5, 2, 150)}},
		{In: []Arg{f32(6), f32(6), f32(6), f32(), f32In(0.5, 2)}},
	}
}
