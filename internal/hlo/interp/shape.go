package interp

import (
	"slices"

	"github.com/galley-ml/galley/internal/hlo"
)

// filled makes a result whose every element is copied from an index of x, or is zero if there is
// none.
func filled(t hlo.TensorType, x tensor, from func(index []int) []int) tensor {
	out := newTensor(t)
	each(t.Shape, func(n int, index []int) {
		if at, ok := offset(x.Shape, from(index)); ok {
			out.copyOf(n, x, at)
		}
	})
	return out
}

func broadcast(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	dims, at := ints(o, "broadcast_dimensions"), make([]int, len(in[0].Shape))
	return []tensor{filled(o.Out[0], in[0], func(index []int) []int {
		for i, d := range dims {
			at[i] = index[d]
			if in[0].Shape[i] == 1 {
				at[i] = 0
			}
		}
		return at
	})}
}

func reshape(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	if in[0].Len() != o.Out[0].Len() {
		fail("reshape of %v to %v", in[0].TensorType, o.Out[0])
	}
	return []tensor{{TensorType: hlo.TensorType{Elem: in[0].Elem, Shape: o.Out[0].Shape}, f: in[0].f,
		i: in[0].i}}
}

func transpose(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	perm, at := ints(o, "permutation"), make([]int, len(in[0].Shape))
	return []tensor{filled(o.Out[0], in[0], func(index []int) []int {
		for i, d := range perm {
			at[d] = index[i]
		}
		return at
	})}
}

func iota(_ *machine, o *hlo.Operation, _ []tensor) []tensor {
	out, dim := newTensor(o.Out[0]), number(o, "iota_dimension")
	each(out.Shape, func(n int, index []int) {
		if out.f != nil {
			out.f[n] = round(out.Elem, float64(index[dim]))
		} else {
			out.i[n] = wrap(out.Elem, int64(index[dim]))
		}
	})
	return []tensor{out}
}

func slice(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	start, step, at := ints(o, "start_indices"), ints(o, "strides"), make([]int, len(in[0].Shape))
	return []tensor{filled(o.Out[0], in[0], func(index []int) []int {
		for d := range at {
			at[d] = start[d] + index[d]*step[d]
		}
		return at
	})}
}

func pad(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	low, between := ints(o, "edge_padding_low"), ints(o, "interior_padding")
	out, at := newTensor(o.Out[0]), make([]int, len(in[0].Shape))
	for i := range out.Len() {
		out.copyOf(i, in[1], 0)
	}
	each(in[0].Shape, func(n int, index []int) {
		for d := range at {
			at[d] = low[d] + index[d]*(between[d]+1)
		}
		if to, ok := offset(out.Shape, at); ok {
			out.copyOf(to, in[0], n)
		}
	})
	return []tensor{out}
}

func concatenate(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	out, dim, start := newTensor(o.Out[0]), number(o, "dimension"), 0
	for _, x := range in {
		each(x.Shape, func(n int, index []int) {
			at := slices.Clone(index)
			at[dim] += start
			if to, ok := offset(out.Shape, at); ok {
				out.copyOf(to, x, n)
			}
		})
		start += x.Shape[dim]
	}
	return []tensor{out}
}

func reverse(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	dims := ints(o, "dimensions")
	return []tensor{filled(o.Out[0], in[0], func(index []int) []int {
		at := slices.Clone(index)
		for _, d := range dims {
			at[d] = in[0].Shape[d] - 1 - at[d]
		}
		return at
	})}
}

// startsOf returns the start of a slice of a size, clamped so that it is within a shape.
func startsOf(in []tensor, shape, size []int) []int {
	at := make([]int, len(in))
	for d, t := range in {
		at[d] = max(0, min(int(t.i[0]), shape[d]-size[d]))
	}
	return at
}

func dynamicSlice(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	start, at := startsOf(in[1:], in[0].Shape, o.Out[0].Shape), make([]int, len(in[0].Shape))
	return []tensor{filled(o.Out[0], in[0], func(index []int) []int {
		for d := range at {
			at[d] = start[d] + index[d]
		}
		return at
	})}
}

func dynamicUpdateSlice(_ *machine, _ *hlo.Operation, in []tensor) []tensor {
	out, start, at := in[0].clone(), startsOf(in[2:], in[0].Shape, in[1].Shape), make([]int, len(in[0].Shape))
	each(in[1].Shape, func(n int, index []int) {
		for d := range at {
			at[d] = start[d] + index[d]
		}
		to, _ := offset(out.Shape, at)
		out.copyOf(to, in[1], n)
	})
	return []tensor{out}
}
