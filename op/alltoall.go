package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Exchange describes how AllToAll splits and concatenates: dim Split is split among the devices, and the
// received parts are concatenated along dim Concat.
type Exchange struct {
	Split, Concat int
	// Sizes holds the sizes of the parts of Split if they differ; Own is then the size of the device's own part.
	Sizes []int
	Own   int
	// Parts holds the sizes of the devices' parts along Concat if they differ.
	Parts []int
}

// AllToAll changes which dim of a tensor is sharded: each device along axes receives its part of dim Split
// from every device, concatenated along dim Concat.
func AllToAll(x *Tensor, m *mesh.Mesh, axes mesh.Axes, e Exchange) *Tensor {
	return apply1(allToAll{Mesh: m.String(), Axes: axes.String(), Split: e.Split, Concat: e.Concat,
		Sizes: e.Sizes, Own: e.Own, Parts: e.Parts}, x)
}

type allToAll struct {
	collective
	Mesh, Axes    string
	Split, Concat int
	Sizes         []int
	Own           int
	Parts         []int
}

func (allToAll) Name() string             { return "all_to_all" }
func (o allToAll) Over() (string, string) { return o.Mesh, o.Axes }

func (o allToAll) Infer(in []Type) ([]Type, error) {
	n, err := wantTeam(in, o.Mesh, o.Axes, o.Split, o.Concat)
	if err != nil {
		return nil, err
	}
	if o.Split == o.Concat {
		return nil, fmt.Errorf("cuts and joins dim %d of %v: want two dims", o.Split, in[0])
	}
	part, err := cut(n, in[0].Shape[o.Split], o.Own, o.Sizes)
	if err != nil {
		return nil, err
	}
	whole, err := joined(n, in[0].Shape[o.Concat], o.Parts)
	return []Type{withDim(withDim(in[0], o.Split, part), o.Concat, whole)}, err
}

func (o allToAll) VJP(in, _, dy []*Tensor) []*Tensor {
	return []*Tensor{apply1(allToAll{Mesh: o.Mesh, Axes: o.Axes, Split: o.Concat, Concat: o.Split,
		Sizes: o.Parts, Own: own(o.Parts, in[0].Dim(o.Concat)), Parts: o.Sizes}, dy[0])}
}

func (o allToAll) Work(in, out []Type) Work {
	return Work{Bytes: moved(in, out), Wire: ring(teamSize(o.Mesh, o.Axes), float64(in[0].Bytes()))}
}

func (o allToAll) Eval(env *Env, in, out []array.Array) {
	g := env.group(o)
	if g == nil {
		copyBytes(env, out[0], in[0])
		return
	}
	sizes := equalParts(g.Size(), in[0].Shape()[o.Split], o.Sizes)
	_, err := g.AllToAll(out[0], in[0], o.Split, sizes, o.Concat)
	must(o, err)
}

func (o allToAll) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if even(o.Sizes) != nil || even(o.Parts) != nil {
		return w.Unsupported("all_to_all of uneven parts", hloTypes(out)...)
	}
	t, err := newTeam(o.Mesh, o.Axes)
	if err != nil {
		panic("op: all_to_all: " + err.Error())
	}
	groups, _ := t.mesh.GroupsOver(t.axes)
	attrs := fmt.Sprintf("split_dimension = %d : i64, concat_dimension = %d : i64, split_count = %d : i64, %s",
		o.Split, o.Concat, t.mesh.Count(t.axes), hlo.Groups(groups))
	return []hlo.Ref{w.Op("all_to_all", attrs, hloType(out[0]), in[0])}
}

func (allToAll) Samples() []Sample {
	return []Sample{
		{Op: allToAll{Mesh: "x=1", Axes: "x", Split: 0, Concat: 1}, In: []Arg{f32(5, 7)}},
		{Op: allToAll{Mesh: "x=1", Axes: "x", Split: 1, Concat: 0, Sizes: []int{7}, Own: 7, Parts: []int{5}},
			In: []Arg{f32(5, 7)}},
	}
}
