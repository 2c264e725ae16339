package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AllGather concatenates the arrays of the devices along axes, in the order of the devices, along dim. Every
// device of the group gets the result. Nil sizes mean that all parts have the same size.
func AllGather(x *Tensor, m *mesh.Mesh, axes mesh.Axes, dim int, sizes []int) *Tensor {
	return apply1(allGather{Mesh: m.String(), Axes: axes.String(), Dim: normDim(len(x.Shape()), dim),
		Sizes: sizes}, x)
}

type allGather struct {
	collective
	Mesh, Axes string
	Dim        int
	// Sizes holds the size of each device's part if they differ.
	Sizes []int
	// Async only starts the collective; Wait completes it.
	Async bool
}

func (o allGather) Started() Op { o.Async = true; return o }

func (allGather) Name() string             { return "all_gather" }
func (o allGather) Over() (string, string) { return o.Mesh, o.Axes }

func (o allGather) Infer(in []Type) ([]Type, error) {
	n, err := wantTeam(in, o.Mesh, o.Axes, o.Dim)
	if err != nil {
		return nil, err
	}
	size, err := joined(n, in[0].Shape[o.Dim], o.Sizes)
	return []Type{withDim(in[0], o.Dim, size)}, err
}

func (o allGather) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(reduceScatter{Mesh: o.Mesh, Axes: o.Axes, Kind: "sum", Dim: o.Dim, Sizes: o.Sizes,
		Own: own(o.Sizes, in[0].Dim(o.Dim))}, dy[0])}
}

// own returns the attribute for the size of a device's own part: size if parts differ, else 0.
func own(sizes []int, size int) int {
	if sizes == nil {
		return 0
	}
	return size
}

func (o allGather) Work(in, out []Type) Work {
	return Work{Bytes: moved(in, out), Wire: ring(teamSize(o.Mesh, o.Axes), float64(out[0].Bytes()))}
}

func (o allGather) Eval(env *Env, in, out []array.Array) {
	g := env.group(o)
	if g == nil {
		copyBytes(env, out[0], in[0])
		return
	}
	env.finish(o, o.Async, out[0], g.StartAllGather(out[0], in[0], o.Dim))
}

func (o allGather) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if even(o.Sizes) != nil {
		return w.Unsupported("all_gather of uneven parts", hloTypes(out)...)
	}
	return []hlo.Ref{w.Op("all_gather", fmt.Sprintf("all_gather_dim = %d : i64, %s", o.Dim, emitGroups(o)),
		hloType(out[0]), in[0])}
}

func (allGather) Samples() []Sample {
	return []Sample{
		{Op: allGather{Mesh: "x=1", Axes: "x", Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: allGather{Mesh: "x=1,y=3", Axes: "x", Sizes: []int{5}}, In: []Arg{f32(5, 7)}},
	}
}
