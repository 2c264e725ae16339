package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ShardSlice returns the device's own part of a tensor that is replicated along axes. It needs no
// communication. Nil sizes mean equal parts; otherwise own is the size of the device's own part.
func ShardSlice(x *Tensor, m *mesh.Mesh, axes mesh.Axes, dim int, sizes []int, own int) *Tensor {
	return apply1(shardSlice{Mesh: m.String(), Axes: axes.String(), Dim: normDim(len(x.Shape()), dim),
		Sizes: sizes, Own: own}, x)
}

type shardSlice struct {
	collective
	Mesh, Axes string
	Dim        int
	// Sizes holds the sizes of the parts if they differ, Own that of the device.
	Sizes []int
	Own   int
}

func (shardSlice) Name() string             { return "shard_slice" }
func (o shardSlice) Over() (string, string) { return o.Mesh, o.Axes }
func (shardSlice) Linear() [][]int          { return [][]int{{0}} }

func (o shardSlice) Infer(in []Type) ([]Type, error) {
	n, err := wantTeam(in, o.Mesh, o.Axes, o.Dim)
	if err != nil {
		return nil, err
	}
	size, err := cut(n, in[0].Shape[o.Dim], o.Own, o.Sizes)
	return []Type{withDim(in[0], o.Dim, size)}, err
}

func (o shardSlice) VJP(_, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(shardPad{Mesh: o.Mesh, Axes: o.Axes, Kind: "sum", Dim: o.Dim, Sizes: o.Sizes},
		dy[0])}
}

func (shardSlice) Work(_, out []Type) Work { return Work{Bytes: 2 * moved(nil, out)} }

func (o shardSlice) Eval(env *Env, in, out []array.Array) {
	from := whole(in[0])
	from.offset = partStart(env, o, in[0].Shape()[o.Dim], o.Sizes) * from.strides[o.Dim]
	moveStrided(env, out[0].Shape(), whole(out[0]), from)
}

// partStart returns where the device's part of a dim begins.
func partStart(env *Env, o Collective, size int, sizes []int) int {
	n := teamSize(o.Over())
	return sum64(equalParts(n, size, sizes)[:position(env.group(o))])
}

func (o shardSlice) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if even(o.Sizes) != nil {
		return w.Unsupported("shard_slice of uneven parts", hloTypes(out)...)
	}
	attrs := "slice_sizes = " + hlo.Ints(out[0].Shape)
	refs := append([]hlo.Ref{in[0]}, emitPartStarts(w, o, len(out[0].Shape), o.Dim, out[0].Shape[o.Dim])...)
	return []hlo.Ref{w.Op("dynamic_slice", attrs, hloType(out[0]), refs...)}
}

// emitPartStarts writes where the device's part begins along each dim: at a multiple of size along dim, else
// at 0.
func emitPartStarts(w *hlo.Writer, o Collective, rank, dim, size int) []hlo.Ref {
	t, err := newTeam(o.Over())
	if err != nil {
		panic(fmt.Sprintf("op: %s: %v", o.Name(), err))
	}
	groups, _ := t.mesh.GroupsOver(t.axes)
	var table []int
	for _, g := range groups {
		for pos, id := range g {
			for len(table) <= id {
				table = append(table, 0)
			}
			table[id] = pos * size
		}
	}
	zero := w.Constant(hlo.Type{DType: array.I32}, 0)
	starts := make([]hlo.Ref, rank)
	for d := range starts {
		starts[d] = zero
	}
	starts[dim] = w.PerDevice(table)
	return starts
}

func (shardSlice) Samples() []Sample {
	return []Sample{
		{Op: shardSlice{Mesh: "x=1", Axes: "x", Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: shardSlice{Mesh: "x=1", Axes: "x", Sizes: []int{5}, Own: 5}, In: []Arg{f32(5, 7)}},
	}
}
