package interp

import (
	"slices"
	"sort"

	"github.com/galley-ml/galley/internal/hlo"
)

// fold computes a reduction of several tensors at one position.
func (m *machine) fold(o *hlo.Operation, inits []tensor,
	f func(in []tensor) []tensor) (add func(xs []tensor, at int), put func(out []tensor, n int)) {
	state := slices.Clone(inits)
	add = func(xs []tensor, at int) {
		args := slices.Clone(state)
		for _, x := range xs {
			args = append(args, x.at(at))
		}
		state = f(args)
	}
	put = func(out []tensor, n int) {
		for i := range out {
			out[i].copyOf(n, state[i], 0)
		}
		state = slices.Clone(inits)
	}
	return add, put
}

func results(o *hlo.Operation) []tensor {
	out := make([]tensor, len(o.Out))
	for i, t := range o.Out {
		out[i] = newTensor(t)
	}
	return out
}

func reduce(m *machine, o *hlo.Operation, in []tensor) []tensor {
	n, dims, f := len(in)/2, ints(o, "dimensions"), m.region(o.Regions[0])
	xs, inits, out := in[:n], in[n:], results(o)
	var kept, over []int
	for d, size := range xs[0].Shape {
		if slices.Contains(dims, d) {
			over = append(over, size)
		} else {
			kept = append(kept, d)
		}
	}
	add, put := m.fold(o, inits, f)
	at := make([]int, len(xs[0].Shape))
	each(o.Out[0].Shape, func(n int, index []int) {
		for i, d := range kept {
			at[d] = index[i]
		}
		each(over, func(_ int, inner []int) {
			for i, d := range slices.Sorted(slices.Values(dims)) {
				at[d] = inner[i]
			}
			from, _ := offset(xs[0].Shape, at)
			add(xs, from)
		})
		put(out, n)
	})
	return out
}

// window is the geometry of a windowed operation.
type window struct{ size, stride, low []int }

func windowOf(o *hlo.Operation) window {
	w := window{size: ints(o, "window_dimensions"), stride: ints(o, "window_strides")}
	padding := ints(o, "padding")
	for d := range w.size {
		w.low = append(w.low, padding[2*d])
	}
	return w
}

// inside calls f for every element of x in the window at index.
func (w window) inside(shape, index []int, f func(at int)) {
	at := make([]int, len(shape))
	each(w.size, func(_ int, inner []int) {
		for d := range at {
			at[d] = index[d]*w.stride[d] + inner[d] - w.low[d]
		}
		if from, ok := offset(shape, at); ok {
			f(from)
		}
	})
}

func reduceWindow(m *machine, o *hlo.Operation, in []tensor) []tensor {
	n, w := len(in)/2, windowOf(o)
	xs, out := in[:n], results(o)
	add, put := m.fold(o, in[n:], m.region(o.Regions[0]))
	each(o.Out[0].Shape, func(n int, index []int) {
		w.inside(xs[0].Shape, index, func(at int) { add(xs, at) })
		put(out, n)
	})
	return out
}

func selectAndScatter(m *machine, o *hlo.Operation, in []tensor) []tensor {
	x, src, w := in[0], in[1], windowOf(o)
	keeps, adds, out := m.region(o.Regions[0]), m.region(o.Regions[1]), newTensor(o.Out[0])
	for i := range out.Len() {
		out.copyOf(i, in[2], 0)
	}
	each(src.Shape, func(n int, index []int) {
		best := -1
		w.inside(x.Shape, index, func(at int) {
			if best < 0 || keeps([]tensor{x.at(best), x.at(at)})[0].i[0] == 0 {
				best = at
			}
		})
		if best >= 0 {
			out.copyOf(best, adds([]tensor{out.at(best), src.at(n)})[0], 0)
		}
	})
	return []tensor{out}
}

func sortOp(m *machine, o *hlo.Operation, in []tensor) []tensor {
	dim, before, out := number(o, "dimension"), m.region(o.Regions[0]), results(o)
	lines := slices.Clone(in[0].Shape)
	n, step := lines[dim], strides(in[0].Shape)[dim]
	lines[dim] = 1
	each(lines, func(_ int, index []int) {
		start, _ := offset(in[0].Shape, index)
		if n == 0 {
			return
		}
		order := make([]int, n)
		for i := range order {
			order[i] = start + i*step
		}
		sort.SliceStable(order, func(a, b int) bool {
			var args []tensor
			for _, x := range in {
				args = append(args, x.at(order[a]), x.at(order[b]))
			}
			return before(args)[0].i[0] != 0
		})
		for i, from := range order {
			for k, x := range in {
				out[k].copyOf(start+i*step, x, from)
			}
		}
	})
	return out
}
