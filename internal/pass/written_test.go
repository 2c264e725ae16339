package pass_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// written is programs that people write, on shapes and dtypes at the edges of what loops have.
var written = map[string]func(x *op.Tensor) []*op.Tensor{
	"norm": func(x *op.Tensor) []*op.Tensor {
		d := op.Sub(x, op.KeepDims(op.Mean(x, -1), x, -1))
		return []*op.Tensor{op.Mul(d, op.KeepDims(op.Rsqrt(op.AddScalar(op.Mean(op.Square(d), -1), 1e-5)), x, -1))}
	},
	"softmax": func(x *op.Tensor) []*op.Tensor {
		e := op.Exp(op.Sub(x, op.KeepDims(op.AMax(x, -1), x, -1)))
		return []*op.Tensor{op.Div(e, op.KeepDims(op.Sum(e, -1), x, -1)), op.Sum(e, -1)}
	},
	"loss": func(x *op.Tensor) []*op.Tensor {
		d := op.Square(op.AddScalar(op.Tanh(x), -0.5))
		return []*op.Tensor{op.Mean(d), op.Sum(d), d, op.Sum(op.Abs(d), 0)}
	},
	"masked": func(x *op.Tensor) []*op.Tensor {
		low := op.Less(x, op.MulScalar(x, 0.5))
		kept := op.LogicalAnd(low, op.LogicalNot(op.Equal(x, op.Neg(x))))
		return []*op.Tensor{op.Where(kept, op.Sigmoid(x), op.Softplus(x)), kept, op.Cast(low, array.I32)}
	},
	"counted": func(x *op.Tensor) []*op.Tensor {
		i := op.Cast(op.MulScalar(x, 100), array.I32)
		return []*op.Tensor{op.Add(op.Mul(i, i), i), op.Sum(i, -1), op.Mul(op.Cast(i, x.DType()), x)}
	},
	"doubled": func(x *op.Tensor) []*op.Tensor {
		d := op.Cast(op.Exp(op.Neg(op.Square(x))), array.F64)
		y := op.Mul(op.Sin(d), op.Cos(op.AddScalar(d, 1)))
		return []*op.Tensor{op.Cast(y, array.F32), op.Sum(op.Erf(y), -1)}
	},
	"turned": func(x *op.Tensor) []*op.Tensor {
		n := x.Dim(-1)
		parts := op.Split(op.MulScalar(x, 2), -1, n/2, n-n/2)
		return []*op.Tensor{op.Concat([]*op.Tensor{op.Neg(parts[1]), parts[0]}, -1), op.Tanh(op.Transpose(x, 1, 0))}
	},
	"ones": func(x *op.Tensor) []*op.Tensor {
		count := op.Sum(op.Exp(op.MulScalar(x, 0)), -1)
		return []*op.Tensor{op.Div(op.Sum(op.ReLU(x), -1), count),
			op.Expand(op.KeepDims(count, x, -1), x.Shape()...)}
	},
}

// TestWritten: programs have the bits of their ops one by one where there is nothing, one row, one column, an
// odd number of columns, or more of them than a row of a loop has; as code and as strips.
func TestWritten(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{Threads: 3})
	defer d.Close()
	loops := 0
	for _, how := range []string{"on", "off"} {
		t.Setenv("GALLEY_JIT", how)
		for _, shape := range []array.Shape{{0, 5}, {5, 0}, {1, 1}, {7, 1}, {1, 9}, {3, 2}, {33, 17}, {2, 4097},
			{2, 33000}, {300, 256}} {
			for _, dtype := range []array.DType{array.F32, array.BF16, array.F16, array.F64} {
				for name, f := range written {
					loops += checkWritten(t, d, name, ir.Type{DType: dtype, Shape: shape}, f)
				}
			}
		}
	}
	if loops < 300 {
		t.Errorf("only %d loops", loops)
	}
}

// checkWritten is how many loops the program has.
func checkWritten(t *testing.T, d *cpu.Device, name string, in ir.Type,
	write func(x *op.Tensor) []*op.Tensor) int {
	b := ir.NewBuilder("written")
	f, err := b.Build(write(b.Param("x", in))...)
	if err != nil {
		return 0 // such as the largest of nothing
	}
	g, _, err := pass.Groups(f, pass.GroupConfig{Always: true})
	if err != nil {
		t.Fatalf("%s of %v: %v", name, in, err)
	}
	args := numbers(f, 9)
	want := runAll(t, d, f, args)
	for i, got := range runAll(t, d, g, args) {
		sameBits(t, got, want[i], i, f, g)
	}
	loops := 0
	for _, n := range g.Nodes() {
		if _, ok := op.FusedBody(n.Op()); ok {
			loops++
		}
	}
	return loops
}
