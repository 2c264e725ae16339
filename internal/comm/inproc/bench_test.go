package inproc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

// collective is what a benchmark repeats on each rank.
type collective func(g *comm.Group, dst, x array.Array) error

// benchmark repeats a collective on n ranks; bytes is the size of each member's operand.
func benchmark(b *testing.B, n int, dst, x func() array.Array, f collective) {
	w, err := inproc.New(n)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(x().Bytes())))
	b.ReportAllocs()
	b.ResetTimer()
	err = w.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		g, err := r.Group(nil)
		if err != nil {
			return err
		}
		to, from := dst(), x()
		for range b.N {
			if err := f(g, to, from); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func zeros(d array.DType, shape ...int) func() array.Array {
	return func() array.Array { return array.New(d, shape...) }
}

func allReduceSum(g *comm.Group, dst, x array.Array) error {
	_, err := g.AllReduce(dst, x, comm.Sum)
	return err
}

func BenchmarkAllReduce(b *testing.B) {
	for _, d := range []array.DType{array.F32, array.BF16} {
		for _, n := range []int{2, 4, 8} {
			x := zeros(d, 4<<20/d.Size())
			b.Run(fmt.Sprintf("%v/4MiB/%d", d, n), func(b *testing.B) { benchmark(b, n, x, x, allReduceSum) })
		}
	}
	x := zeros(array.F32, 16)
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("f32/64B/%d", n), func(b *testing.B) { benchmark(b, n, x, x, allReduceSum) })
	}
}

func BenchmarkAllGather(b *testing.B) {
	for dim, name := range []string{"rows", "columns"} {
		for _, n := range []int{2, 8} {
			shape := []int{1024, 1024}
			shape[dim] *= n
			b.Run(fmt.Sprintf("%s/4MiB/%d", name, n), func(b *testing.B) {
				benchmark(b, n, zeros(array.F32, shape...), zeros(array.F32, 1024, 1024),
					func(g *comm.Group, dst, x array.Array) error {
						_, err := g.AllGather(dst, x, dim)
						return err
					})
			})
		}
	}
}

func BenchmarkReduceScatter(b *testing.B) {
	for dim, name := range []string{"rows", "columns"} {
		shape := []int{1024, 1024}
		shape[dim] /= 4
		b.Run(fmt.Sprintf("%s/4MiB/4", name), func(b *testing.B) {
			benchmark(b, 4, zeros(array.F32, shape...), zeros(array.F32, 1024, 1024),
				func(g *comm.Group, dst, x array.Array) error {
					_, err := g.ReduceScatter(dst, x, comm.Sum, dim, nil)
					return err
				})
		})
	}
}
