package nn_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// BenchmarkRecurrent is an LSTM with the gradient of its input, unrolled and as one op; trace is the time
// until it runs.
func BenchmarkRecurrent(b *testing.B) {
	for _, steps := range []int{32, 256} {
		for _, scan := range []bool{false, true} {
			d := galley.CPU(galley.Config{Threads: 1})
			defer d.Close()
			in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 5})
			r := nn.NewLSTM(in, 64, 64, nn.RecurrentConfig{Scan: scan})
			compile := func() *galley.Executable {
				f, err := galley.Trace("lstm", []op.Type{{DType: array.F32, Shape: array.Shape{16, steps, 64}}},
					func(x []*op.Tensor) []*op.Tensor {
						loss := op.Sum(op.Square(r.Forward(x[0])))
						return append([]*op.Tensor{loss}, op.Grad([]*op.Tensor{loss}, nil, x)...)
					})
				if err != nil {
					b.Fatal(err)
				}
				e, err := galley.Compile(d, f, galley.Options{})
				if err != nil {
					b.Fatal(err)
				}
				return e
			}
			name := fmt.Sprintf("steps=%d/scan=%v/", steps, scan)
			b.Run(name+"trace", func(b *testing.B) {
				for range b.N {
					compile()
				}
			})
			e := compile()
			x := array.New(array.F32, 16, steps, 64)
			b.Run(name+"run", func(b *testing.B) {
				b.ReportMetric(float64(e.Memory().Arena), "arena-bytes")
				for range b.N {
					if _, err := e.Run([]array.Array{x}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
