package packed_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/packed"
)

// BenchmarkMultiply times products on one thread, by format and rows, with weights that are in the cache.
func BenchmarkMultiply(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	const out, in = 1536, 768
	w := array.FromSlice(random(r, out*in), out, in)
	for _, f := range packed.Formats() {
		p, err := packed.Pack(f, packed.Rows(w))
		if err != nil {
			b.Fatal(err)
		}
		for _, rows := range []int{1, 8, 64, 256} {
			x, y := random(r, rows*in), make([]float32, rows*out)
			b.Run(fmt.Sprintf("%s/%d", f, rows), func(b *testing.B) {
				for b.Loop() {
					p.Multiply(nil, y, x, rows)
				}
				b.ReportMetric(2*float64(rows*out*in)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
