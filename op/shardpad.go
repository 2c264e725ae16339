package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ShardPad turns a sharded tensor into an unreduced one: the device's shard in its place, surrounded by the
// neutral element of the reduction. It needs no communication. Nil sizes mean equal parts.
func ShardPad(x *Tensor, m *mesh.Mesh, axes mesh.Axes, by mesh.Reduce, dim int, sizes []int) *Tensor {
	return apply1(shardPad{Mesh: m.String(), Axes: axes.String(), Kind: by.String(),
		Dim: normDim(len(x.Shape()), dim), Sizes: sizes}, x)
}

type shardPad struct {
	collective
	Mesh, Axes, Kind string
	Dim              int
	Sizes            []int
}

func (shardPad) Name() string             { return "shard_pad" }
func (o shardPad) Over() (string, string) { return o.Mesh, o.Axes }

func (o shardPad) Infer(in []Type) ([]Type, error) {
	n, err := wantTeam(in, o.Mesh, o.Axes, o.Dim)
	if err == nil {
		err = wantReduce(o.Kind, in[0])
	}
	if err != nil {
		return nil, err
	}
	size, err := joined(n, in[0].Shape[o.Dim], o.Sizes)
	return []Type{withDim(in[0], o.Dim, size)}, err
}

func (o shardPad) VJP(in, _, dy []*Tensor) []*Tensor {
	slice := shardSlice{Mesh: o.Mesh, Axes: o.Axes, Dim: o.Dim, Sizes: o.Sizes,
		Own: own(o.Sizes, in[0].Dim(o.Dim))}
	return []*Tensor{apply1(slice, dy[0])}
}

func (shardPad) Work(in, out []Type) Work { return Work{Bytes: moved(in, out)} }

func (o shardPad) Eval(env *Env, in, out []array.Array) {
	by, err := mesh.ParseReduce(o.Kind)
	must(o, err)
	neutral(env, by, out[0])
	to := whole(out[0])
	to.offset = partStart(env, o, out[0].Shape()[o.Dim], o.Sizes) * to.strides[o.Dim]
	moveStrided(env, in[0].Shape(), to, whole(in[0]))
}

func (o shardPad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if even(o.Sizes) != nil {
		return w.Unsupported("shard_pad of uneven parts", hloTypes(out)...)
	}
	refs := append([]hlo.Ref{w.Constant(hloType(out[0]), neutralOf(o.Kind, out[0].DType)), in[0]},
		emitPartStarts(w, o, len(out[0].Shape), o.Dim, in[0].Shape[o.Dim])...)
	return []hlo.Ref{w.Op("dynamic_update_slice", "", hloType(out[0]), refs...)}
}

func (shardPad) Samples() []Sample {
	return []Sample{
		{Op: shardPad{Mesh: "x=1", Axes: "x", Kind: "sum", Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: shardPad{Mesh: "x=1", Axes: "x", Kind: "max", Sizes: []int{5}}, In: []Arg{f32(5, 7)}},
	}
}
