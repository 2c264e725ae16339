package interp

import (
	"slices"

	"github.com/galley-ml/galley/internal/hlo"
)

type collective func(m *machine, o *hlo.Operation, in [][]tensor) [][]tensor

// collectives holds the operations that devices run together.
var collectives map[string]collective

func init() {
	collectives = map[string]collective{
		"replica_id": deviceID, "all_reduce": allReduce, "all_gather": allGather,
		"reduce_scatter": reduceScatter, "all_to_all": allToAll, "collective_permute": permute,
	}
}

func deviceID(_ *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	out := make([][]tensor, len(in))
	for d := range in {
		t := newTensor(o.Out[0])
		t.i[0] = int64(d)
		out[d] = []tensor{t}
	}
	return out
}

// groups returns the groups of devices that communicate. With fewer devices than the program is for, these
// are the groups all of whose devices exist.
func groups(o *hlo.Operation, devices int) [][]int {
	a := o.Attr("replica_groups").(hlo.DenseAttr)
	ids, size := ints(o, "replica_groups"), a.Type.Shape[1]
	var out [][]int
	for g := range slices.Chunk(ids, max(size, 1)) {
		if slices.Max(g) < devices {
			out = append(out, g)
		}
	}
	return out
}

// perGroup applies f to the operands of each group and returns its results, one for each device.
func perGroup(o *hlo.Operation, in [][]tensor, f func(parts []tensor) []tensor) [][]tensor {
	out := make([][]tensor, len(in))
	for _, g := range groups(o, len(in)) {
		parts := make([]tensor, len(g))
		for i, d := range g {
			parts[i] = in[d][0]
		}
		for i, t := range f(parts) {
			out[g[i]] = []tensor{t}
		}
	}
	return out
}

// combined returns the elementwise reduction of all parts.
func (m *machine) combined(o *hlo.Operation, parts []tensor) tensor {
	f, out := m.region(o.Regions[0]), parts[0].clone()
	for _, p := range parts[1:] {
		for i := range out.Len() {
			out.copyOf(i, f([]tensor{out.at(i), p.at(i)})[0], 0)
		}
	}
	return out
}

func allReduce(m *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	return perGroup(o, in, func(parts []tensor) []tensor {
		return slices.Repeat([]tensor{m.combined(o, parts)}, len(parts))
	})
}

func allGather(_ *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	dim := number(o, "all_gather_dim")
	return perGroup(o, in, func(parts []tensor) []tensor {
		return slices.Repeat([]tensor{join(parts, dim)}, len(parts))
	})
}

func reduceScatter(m *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	dim := number(o, "scatter_dimension")
	return perGroup(o, in, func(parts []tensor) []tensor { return cut(m.combined(o, parts), dim, len(parts)) })
}

func allToAll(_ *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	split, concat := number(o, "split_dimension"), number(o, "concat_dimension")
	return perGroup(o, in, func(parts []tensor) []tensor {
		pieces := make([][]tensor, len(parts)) // by receiver
		for _, p := range parts {
			for i, piece := range cut(p, split, len(parts)) {
				pieces[i] = append(pieces[i], piece)
			}
		}
		out := make([]tensor, len(parts))
		for i := range out {
			out[i] = join(pieces[i], concat)
		}
		return out
	})
}

func permute(_ *machine, o *hlo.Operation, in [][]tensor) [][]tensor {
	out := make([][]tensor, len(in))
	for d := range out {
		out[d] = []tensor{newTensor(o.Out[0])}
	}
	for pair := range slices.Chunk(ints(o, "source_target_pairs"), 2) {
		if max(pair[0], pair[1]) < len(in) {
			out[pair[1]] = []tensor{in[pair[0]][0]}
		}
	}
	return out
}

// join concatenates parts along a dim, cut is the reverse.
func join(parts []tensor, dim int) tensor {
	t := hlo.TensorType{Elem: parts[0].Elem, Shape: slices.Clone(parts[0].Shape)}
	t.Shape[dim] *= len(parts)
	out := newTensor(t)
	for i, p := range parts {
		each(p.Shape, func(n int, index []int) {
			at := slices.Clone(index)
			at[dim] += i * p.Shape[dim]
			to, _ := offset(t.Shape, at)
			out.copyOf(to, p, n)
		})
	}
	return out
}

func cut(x tensor, dim, n int) []tensor {
	t := hlo.TensorType{Elem: x.Elem, Shape: slices.Clone(x.Shape)}
	t.Shape[dim] /= n
	out := make([]tensor, n)
	for i := range out {
		out[i] = filled(t, x, func(index []int) []int {
			at := slices.Clone(index)
			at[dim] += i * t.Shape[dim]
			return at
		})
	}
	return out
}
