package interp

import (
	"slices"
	"strconv"

	"github.com/galley-ml/galley/internal/hlo"
)

func dotGeneral(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	const attr = "dot_dimension_numbers"
	x, y, out := in[0], in[1], newTensor(o.Out[0])
	batchX, batchY := fields(o, attr, "lhs_batching_dimensions"), fields(o, attr, "rhs_batching_dimensions")
	sumX, sumY := fields(o, attr, "lhs_contracting_dimensions"), fields(o, attr, "rhs_contracting_dimensions")
	freeX, freeY := rest(x.Shape, batchX, sumX), rest(y.Shape, batchY, sumY)
	strideX, strideY := strides(x.Shape), strides(y.Shape)
	var over, stepX, stepY []int
	for i, d := range sumX {
		over, stepX, stepY = append(over, x.Shape[d]), append(stepX, strideX[d]), append(stepY, strideY[sumY[i]])
	}
	var offX, offY []int
	each(over, func(_ int, index []int) {
		a, b := 0, 0
		for i, k := range index {
			a, b = a+k*stepX[i], b+k*stepY[i]
		}
		offX, offY = append(offX, a), append(offY, b)
	})
	each(out.Shape, func(n int, index []int) {
		a, b := 0, 0
		for i := range batchX {
			a, b = a+index[i]*strideX[batchX[i]], b+index[i]*strideY[batchY[i]]
		}
		for i, d := range freeX {
			a += index[len(batchX)+i] * strideX[d]
		}
		for i, d := range freeY {
			b += index[len(batchX)+len(freeX)+i] * strideY[d]
		}
		if out.i != nil {
			for i := range offX {
				out.i[n] = wrap(out.Elem, out.i[n]+x.i[a+offX[i]]*y.i[b+offY[i]])
			}
			return
		}
		sum := 0.0
		for i := range offX {
			sum += x.f[a+offX[i]] * y.f[b+offY[i]]
		}
		out.f[n] = round(out.Elem, sum)
	})
	return []tensor{out}
}

// rest returns the dims of a shape that are in none of the lists.
func rest(shape []int, lists ...[]int) []int {
	var dims []int
	for d := range shape {
		if !slices.ContainsFunc(lists, func(l []int) bool { return slices.Contains(l, d) }) {
			dims = append(dims, d)
		}
	}
	return dims
}

// layout returns the meaning of a convolution tensor's dims: the two that are not spatial, by letter, then
// the spatial ones in order.
func layout(words []string, first, second string) (a, b int, space []int) {
	space = make([]int, len(words)-2)
	for d, w := range words {
		switch w {
		case first:
			a = d
		case second:
			b = d
		default:
			n, _ := strconv.Atoi(w)
			space[n] = d
		}
	}
	return a, b, space
}

func convolution(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	x, kernel, out := in[0], in[1], newTensor(o.Out[0])
	dims := o.Attr("dimension_numbers").(hlo.ConvAttr)
	xb, xf, xs := layout(dims.In, "b", "f")
	ki, ko, ks := layout(dims.Kernel, "i", "o")
	yb, yf, ys := layout(dims.Out, "b", "f")
	stride, padding := ints(o, "window_strides"), ints(o, "padding")
	spread, dilate := ints(o, "lhs_dilation"), ints(o, "rhs_dilation")
	reversal := o.Attr("window_reversal").(hlo.ArrayAttr).Words
	groups, batches := number(o, "feature_group_count"), number(o, "batch_group_count")
	var size []int
	for _, d := range ks {
		size = append(size, kernel.Shape[d])
	}
	outs, depth := kernel.Shape[ko], kernel.Shape[ki]
	atX, atK := make([]int, len(x.Shape)), make([]int, len(x.Shape))
	each(out.Shape, func(n int, index []int) {
		sum, channel := 0.0, index[yf]
		each(size, func(_ int, w []int) {
			for i := range xs {
				p := index[ys[i]]*stride[i] + w[i]*dilate[i] - padding[2*i]
				if p%spread[i] != 0 {
					return
				}
				atX[xs[i]], atK[ks[i]] = p/spread[i], w[i]
				if reversal[i] == "true" {
					atK[ks[i]] = size[i] - 1 - w[i]
				}
			}
			atK[ko] = channel
			atX[xb] = index[yb] + channel/(outs/batches)*(x.Shape[xb]/batches)
			for c := range depth {
				atK[ki], atX[xf] = c, c+channel/(outs/groups)*depth
				a, ok := offset(x.Shape, atX)
				if b, in := offset(kernel.Shape, atK); ok && in {
					sum += x.f[a] * kernel.f[b]
				}
			}
		})
		out.f[n] = round(out.Elem, sum)
	})
	return []tensor{out}
}
