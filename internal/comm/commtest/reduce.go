package commtest

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/kernel"
)

func reduceChecks() []check {
	return []check{
		{"all_reduce", worldSizes, allReduce},
		{"all_reduce_large", []int{2, 4}, allReduceLarge},
		{"all_reduce_order", worldSizes, reductionOrder},
		{"all_reduce_special", []int{2, 3}, specialNumbers},
		{"all_reduce_wide_integers", []int{3}, wideIntegers},
		{"reduce_scatter", worldSizes, reduceScatter},
		{"reduce_scatter_order", worldSizes, scatterOrder},
	}
}

// inputs returns the arrays of all ranks of c's world.
func inputs(c comm.Comm, dtype array.DType, seed int, shape ...int) []array.Array {
	xs := make([]array.Array, c.Size())
	for r := range xs {
		xs[r] = Input(dtype, seed, r, shape...)
	}
	return xs
}

// allReduce checks every reduction of every dtype, into new memory, into given memory and in place.
func allReduce(c comm.Comm) error {
	g := everyone(c)
	for _, dtype := range array.DTypes() {
		for _, by := range comm.Reduces() {
			for i, shape := range [][]int{{}, {0, 3}, {5, 7}} {
				if !by.Takes(dtype) {
					continue
				}
				if err := allReduceOnce(g, inputs(c, dtype, i, shape...), by); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func allReduceOnce(g *comm.Group, xs []array.Array, by comm.Reduce) error {
	x := xs[g.Pos()]
	want := reduced(by, xs)
	if by == comm.Mean && g.Size() == 3 {
		want = meanByTree(xs) // 1/k is not exact here: the quotient is rounded in the dtype of the computation
	}
	own := x.Clone()
	for _, a := range []struct{ dst, in array.Array }{{in: x}, {array.New(x.DType(), x.Shape()...), x},
		{own, own}} {
		got, err := g.AllReduce(a.dst, a.in, by)
		if err != nil {
			return err
		}
		if err := same(fmt.Sprintf("%v of %v", by, x.DType()), got, want); err != nil {
			return err
		}
	}
	return nil
}

func meanByTree(xs []array.Array) array.Array {
	n := float64(len(xs))
	if xs[0].DType() == array.F64 {
		return byTree(xs, func(v float64) float64 { return v / n })
	}
	return byTree(xs, func(v float64) float64 { return float64(float32(v) / float32(n)) })
}

// allReduceLarge reduces enough elements for several pieces of work, the last of them shorter.
func allReduceLarge(c comm.Comm) error {
	g := everyone(c)
	for _, dtype := range []array.DType{array.F32, array.BF16, array.I32} {
		xs := inputs(c, dtype, 9, 70_007)
		got, err := g.AllReduce(array.Array{}, xs[c.ID()], comm.Sum)
		if err != nil {
			return err
		}
		if err := same("large sum", got, reduced(comm.Sum, xs)); err != nil {
			return err
		}
	}
	return nil
}

// uneven returns floats whose sum depends on the order of addition.
func uneven(dtype array.DType, rank int, shape ...int) array.Array {
	v := make([]float64, array.Shape(shape).Len())
	for i := range v {
		h := hash(77, rank, i)
		v[i] = math.Ldexp(float64(h%2047)-1023, int(h>>40%16)-8)
	}
	return fromFloats(dtype, v, shape)
}

// byTree sums in the required order: a binary tree over positions, 16-bit floats in float32, rounded once.
func byTree(xs []array.Array, finish func(float64) float64) array.Array {
	v := make([]float64, xs[0].Len())
	for i := range v {
		if xs[0].DType() == array.F64 {
			p := make([]float64, len(xs))
			for r, x := range xs {
				p[r] = x.At(i)
			}
			v[i] = kernel.Tree(p)
		} else {
			p := make([]float32, len(xs))
			for r, x := range xs {
				p[r] = float32(x.At(i))
			}
			v[i] = float64(kernel.Tree(p))
		}
		if finish != nil {
			v[i] = finish(v[i])
		}
	}
	return fromFloats(xs[0].DType(), v, xs[0].Shape())
}

// floats are the types whose sums depend on order.
var floats = []array.DType{array.F64, array.F32, array.BF16, array.F16}

func reductionOrder(c comm.Comm) error {
	for _, dtype := range floats {
		xs := make([]array.Array, c.Size())
		for r := range xs {
			xs[r] = uneven(dtype, r, 501)
		}
		got, err := everyone(c).AllReduce(array.Array{}, xs[c.ID()], comm.Sum)
		if err != nil {
			return err
		}
		if err := same("sum by tree", got, byTree(xs, nil)); err != nil {
			return err
		}
	}
	return nil
}

// scatterOrder checks that ReduceScatter gives the same bits as AllReduce.
func scatterOrder(c comm.Comm) error {
	g := everyone(c)
	sizes := unevenSizes(c.Size(), 3)
	for _, dtype := range floats {
		x := uneven(dtype, c.ID(), 4, sum(sizes), 3)
		whole, err := g.AllReduce(array.Array{}, x, comm.Sum)
		if err != nil {
			return err
		}
		part, err := g.ReduceScatter(array.Array{}, x, comm.Sum, 1, sizes)
		if err != nil {
			return err
		}
		if err := same("reduce_scatter", part, parts(whole, 1, sizes)[g.Pos()]); err != nil {
			return err
		}
	}
	return nil
}

// specialNumbers checks that max and min propagate NaN and that the sum of opposite infinities is NaN.
func specialNumbers(c comm.Comm) error {
	x := array.FromSlice([]float32{1, float32(math.Inf(1 - 2*(c.ID()%2))), -1}, 3)
	if c.ID() == 1 {
		array.Data[float32](x)[0] = float32(math.NaN())
	}
	for _, by := range []comm.Reduce{comm.Max, comm.Min, comm.Sum} {
		got, err := everyone(c).AllReduce(array.Array{}, x, by)
		if err != nil {
			return err
		}
		if !math.IsNaN(got.At(0)) || by == comm.Sum && !math.IsNaN(got.At(1)) || math.IsNaN(got.At(2)) {
			return fmt.Errorf("%v with NaN and infinities: got %v", by, got)
		}
	}
	return nil
}

// wideIntegers checks integers that float64 cannot represent: reductions must not convert to floats.
func wideIntegers(c comm.Comm) error {
	x := array.FromSlice([]int64{1<<60 + int64(c.ID())}, 1)
	got, err := everyone(c).AllReduce(array.Array{}, x, comm.Sum)
	if err != nil {
		return err
	}
	return same("i64 sum", got, array.FromSlice([]int64{3<<60 + 3}, 1))
}

// unevenSizes cuts a dim into k parts, some of which are empty.
func unevenSizes(k, seed int) []int {
	sizes := make([]int, k)
	for i := range sizes {
		sizes[i] = int(hash(seed, i) % 4)
	}
	sizes[int(hash(seed)%uint64(k))] += 2
	return sizes
}

func sum(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

func reduceScatter(c comm.Comm) error {
	g := everyone(c)
	for seed, dtype := range array.DTypes() {
		for _, by := range comm.Reduces() {
			if !by.Takes(dtype) || by == comm.Mean && c.Size() == 3 {
				continue
			}
			sizes := unevenSizes(c.Size(), seed)
			for dim := range 3 {
				shape := []int{2, 3, 4}
				shape[dim] = sum(sizes)
				xs := inputs(c, dtype, seed, shape...)
				got, err := g.ReduceScatter(array.Array{}, xs[c.ID()], by, dim, sizes)
				if err != nil {
					return err
				}
				want := parts(reduced(by, xs), dim, sizes)[g.Pos()]
				if err := same(fmt.Sprintf("%v of %v along dim %d", by, dtype, dim), got, want); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
