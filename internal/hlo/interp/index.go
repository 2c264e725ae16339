package interp

import (
	"slices"

	"github.com/galley-ml/galley/internal/hlo"
)

// picker is the dimension numbers that gather and scatter share: how an index tensor selects positions in an
// operand.
type picker struct {
	windowDims, droppedDims, indexMap []int
	vectorDim                         int
}

// start returns the position in the operand that the index of a batch selects.
func (p picker) start(index tensor, batch []int, rank int) []int {
	at := make([]int, rank)
	for i, d := range p.indexMap {
		var where []int
		if p.vectorDim < len(index.Shape) {
			where = slices.Insert(slices.Clone(batch), p.vectorDim, i)
		} else {
			where = batch
		}
		n, ok := offset(index.Shape, where)
		if !ok {
			fail("an index of shape %v has no place %v", index.Shape, where)
		}
		at[d] = int(index.i[n])
	}
	return at
}

// split splits an index of the tensor with windows into that of the batch and that within the window.
func (p picker) split(index []int, rank int) (batch, window []int) {
	window = make([]int, rank)
	kept := rest(make([]int, rank), p.droppedDims)
	for d, i := range index {
		if k := slices.Index(p.windowDims, d); k >= 0 {
			window[kept[k]] = i
		} else {
			batch = append(batch, i)
		}
	}
	return batch, window
}

func gather(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	const attr = "dimension_numbers"
	p := picker{fields(o, attr, "offset_dims"), fields(o, attr, "collapsed_slice_dims"),
		fields(o, attr, "start_index_map"),
		fields(o, attr, "index_vector_dim")[0]}
	x, sizes := in[0], ints(o, "slice_sizes")
	return []tensor{filled(o.Out[0], x, func(index []int) []int {
		batch, at := p.split(index, len(x.Shape))
		for d, s := range p.start(in[1], batch, len(x.Shape)) {
			at[d] += max(0, min(s, x.Shape[d]-sizes[d]))
		}
		return at
	})}
}

func scatter(m *machine, o *hlo.Operation, in []tensor) []tensor {
	const attr = "scatter_dimension_numbers"
	p := picker{fields(o, attr, "update_window_dims"), fields(o, attr, "inserted_window_dims"),
		fields(o, attr, "scatter_dims_to_operand_dims"),
		fields(o, attr, "index_vector_dim")[0]}
	out, src, f := in[0].clone(), in[2], m.region(o.Regions[0])
	each(src.Shape, func(n int, index []int) {
		batch, at := p.split(index, len(out.Shape))
		for d, s := range p.start(in[1], batch, len(out.Shape)) {
			at[d] += s
		}
		if to, ok := offset(out.Shape, at); ok {
			out.copyOf(to, f([]tensor{out.at(to), src.at(n)})[0], 0)
		}
	})
	return []tensor{out}
}
