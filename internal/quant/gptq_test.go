package quant_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/internal/quant"
)

// TestCompensate: on inputs whose elements go together, making up for errors leaves less of them than
// rounding to the nearest does.
func TestCompensate(t *testing.T) {
	const out, in, rows, factors = 24, 64, 400, 12
	mix, seeds, x := normals(11, factors*in), normals(12, rows*factors), normals(13, rows*in)
	for r := range rows {
		for i := range in {
			x[r*in+i] *= 0.1
			for f := range factors {
				x[r*in+i] += seeds[r*factors+f] * mix[f*in+i]
			}
		}
	}
	w := normals(14, out*in)
	h := quant.NewHessian(in)
	h.Add(x[:rows/2*in], rows/2)
	h.Add(x[rows/2*in:], rows/2)
	c := quant.Config{Bits: 4, Group: 32, Scale: quant.HalfScale}
	made, err := quant.Compensate(c, w, out, in, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Check(); err != nil {
		t.Fatal(err)
	}
	a, b := outputError(w, made.Floats(), x, rows, out, in),
		outputError(w, quant.Round(c, w, out, in).Floats(), x, rows, out, in)
	if a > 0.6*b {
		t.Errorf("error of the products: %v, and %v by rounding to the nearest: want far less", a, b)
	}
	bad := quant.NewHessian(2)
	bad.Add([]float32{float32(math.NaN()), 1}, 1)
	if _, err := quant.Compensate(c, w[:4], 2, 2, bad); err == nil {
		t.Error("inputs that are no numbers: got no error")
	}
}

func outputError(w, got, x []float32, rows, out, in int) float64 {
	sum := 0.0
	for r := range rows {
		for j := range out {
			d := 0.0
			for i := range in {
				d += float64(x[r*in+i]) * float64(w[j*in+i]-got[j*in+i])
			}
			sum += d * d
		}
	}
	return sum
}
