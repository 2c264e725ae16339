package ptx

import (
	"fmt"
	"math"

	"github.com/galley-ml/galley/array"
)

// reference computes what a kernel should compute of its arrays, one number after the other.
func reference(name string, arrays []array.Array) error {
	var first int
	if n, _ := fmt.Sscanf(name, turnedName, &first); n == 1 && len(arrays) >= 4+first {
		turn(sums(arrays[0], arrays[1], false), arrays[2], arrays[3], arrays[4:], first)
		return nil
	}
	switch {
	case name == "gated_product" && len(arrays) == 4:
		gate(sums(arrays[0], arrays[1], false), arrays[2], arrays[3])
	case name == "gated_gradient" && len(arrays) == 4:
		gateGradients(sums(arrays[0], arrays[1], true), arrays[2], arrays[3])
	default:
		return fmt.Errorf("ptx: no kernel %s of %d arrays", name, len(arrays))
	}
	return nil
}

// sums returns the rows of a product, rounded; turned is that the right side's rows are those of the depth.
func sums(left, right array.Array, turned bool) [][]float64 {
	x, w := left.Float64s(), right.Float64s()
	depth := left.Shape()[len(left.Shape())-1]
	rows, cols := len(x)/depth, len(w)/depth
	across, down := depth, 1
	if turned {
		across, down = 1, cols
	}
	out := make([][]float64, rows)
	for i := range out {
		row := array.New(array.BF16, cols)
		for j := range cols {
			s := 0.0
			for k := range depth {
				s += x[i*depth+k] * w[j*across+k*down]
			}
			row.Set(j, s)
		}
		out[i] = row.Float64s()
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func gate(rows [][]float64, both, out array.Array) {
	for i, r := range rows {
		n := len(r) / 2
		for j, x := range r {
			both.Set(i*2*n+j, x)
		}
		for j, g := range r[:n] {
			out.Set(i*n+j, g*sigmoid(g)*r[n+j])
		}
	}
}

func gateGradients(rows [][]float64, both, out array.Array) {
	for i, r := range rows {
		n := len(r)
		for j, d := range r {
			at := i*2*n + j
			g, u := both.At(at), both.At(at+n)
			s := sigmoid(g)
			out.Set(at, d*u*(s+g*s*(1-s)))
			out.Set(at+n, d*g*s)
		}
	}
}

// turn turns the first of the arrays that rows are made of.
func turn(rows [][]float64, cos, sin array.Array, out []array.Array, first int) {
	shape := cos.Shape()
	half := shape[len(shape)-1]
	seq := shape.Len() / half
	for i, r := range rows {
		for k, a := range out {
			n := a.Len() / len(rows)
			for j := range n {
				x := r[j]
				if at := i%seq*half + j%half; k < first && j%(2*half) < half {
					x = x*cos.At(at) - r[j+half]*sin.At(at)
				} else if k < first {
					x = x*cos.At(at) + r[j-half]*sin.At(at)
				}
				a.Set(i*n+j, x)
			}
			r = r[n:]
		}
	}
}
