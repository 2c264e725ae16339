package bench

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// GemmConfig is a product of two square matrices.
type GemmConfig struct {
	N, Threads, Runs int
	DType            array.DType
}

// GemmResult is the speed of the product.
type GemmResult struct {
	N       int    `json:"n"`
	Threads int    `json:"threads"`
	DType   string `json:"dtype"`
	Timing
	// GFLOPS is of the best run, GFLOPSMedian of the median one.
	GFLOPS       float64 `json:"gflops"`
	GFLOPSMedian float64 `json:"gflops_median"`
}

// String prints the result in a line.
func (r GemmResult) String() string {
	return fmt.Sprintf("gemm %s n=%d threads=%d: best %.2f ms, %.1f GFLOP/s; median %.2f ms, %.1f GFLOP/s",
		r.DType, r.N, r.Threads, r.BestMS, r.GFLOPS, r.MedianMS, r.GFLOPSMedian)
}

// Gemm times the op as a compiled program runs it.
func Gemm(c GemmConfig) (GemmResult, error) {
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	t := op.Type{DType: c.DType, Shape: array.Shape{c.N, c.N}}
	p, err := galley.Trace("gemm", []op.Type{t, t}, func(in []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{op.MatMul(in[0], in[1])}
	})
	if err != nil {
		return GemmResult{}, err
	}
	e, err := galley.Compile(d, p, galley.Options{})
	if err != nil {
		return GemmResult{}, err
	}
	args, into := []array.Array{random(d, t, 1), random(d, t, 2)}, []array.Array{random(d, t, 3)}
	timing, err := measure(2, c.Runs, func() error { _, err := e.RunInto(args, into); return err })
	if err != nil {
		return GemmResult{}, err
	}
	flops := 2 * float64(c.N) * float64(c.N) * float64(c.N)
	return GemmResult{
		N: c.N, Threads: d.Threads(), DType: c.DType.String(), Timing: timing,
		GFLOPS: flops / timing.BestMS / 1e6, GFLOPSMedian: flops / timing.MedianMS / 1e6,
	}, nil
}

// random returns a tensor of normal numbers.
func random(d *galley.Device, t op.Type, seed uint64) array.Array {
	a, err := galley.Read(op.Normal(d.NewSession(), op.Key{Seed: seed}, t.DType, t.Shape))
	if err != nil {
		panic(err) // cannot fail: the types are our own
	}
	return a
}
