package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// ReduceScatter reduces the arrays of the devices along axes element by element and splits the result along
// dim: each device gets its part. Nil sizes mean equal parts; otherwise own is the size of the device's own
// part.
func ReduceScatter(x *Tensor, m *mesh.Mesh, axes mesh.Axes, by mesh.Reduce, dim int, sizes []int,
	own int) *Tensor {
	return apply1(reduceScatter{Mesh: m.String(), Axes: axes.String(), Kind: by.String(),
		Dim: normDim(len(x.Shape()), dim), Sizes: sizes, Own: own}, x)
}

type reduceScatter struct {
	collective
	Mesh, Axes, Kind string
	Dim              int
	// Sizes holds the sizes of the parts if they differ, Own that of the device.
	Sizes []int
	Own   int
	// Async only starts the collective; Wait completes it.
	Async bool
}

func (o reduceScatter) Started() Op { o.Async = true; return o }

func (reduceScatter) Name() string             { return "reduce_scatter" }
func (o reduceScatter) Over() (string, string) { return o.Mesh, o.Axes }

func (o reduceScatter) Infer(in []Type) ([]Type, error) {
	n, err := wantTeam(in, o.Mesh, o.Axes, o.Dim)
	if err == nil {
		err = wantReduce(o.Kind, in[0])
	}
	if err != nil {
		return nil, err
	}
	size, err := cut(n, in[0].Shape[o.Dim], o.Own, o.Sizes)
	return []Type{withDim(in[0], o.Dim, size)}, err
}

func (o reduceScatter) VJP(in, y, dy []*Tensor) []*Tensor {
	gather := allGather{Mesh: o.Mesh, Axes: o.Axes, Dim: o.Dim, Sizes: o.Sizes}
	whole := y[0]
	if o.Kind != "sum" && o.Kind != "mean" {
		whole = apply1(gather, y[0])
	}
	return []*Tensor{reducedGrad(o.Mesh, o.Axes, o.Kind, in[0], whole, apply1(gather, dy[0]))}
}

func (o reduceScatter) Work(in, out []Type) Work {
	n := teamSize(o.Mesh, o.Axes)
	return Work{Flops: ring(n, float64(in[0].Shape.Len())), Bytes: moved(in, out),
		Wire: ring(n, float64(in[0].Bytes()))}
}

func (o reduceScatter) Eval(env *Env, in, out []array.Array) {
	g := env.group(o)
	if g == nil {
		copyBytes(env, out[0], in[0])
		return
	}
	sizes := equalParts(g.Size(), in[0].Shape()[o.Dim], o.Sizes)
	env.finish(o, o.Async, out[0], g.StartReduceScatter(out[0], in[0], commReduce(o.Kind), o.Dim, sizes))
}

func (o reduceScatter) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if even(o.Sizes) != nil {
		return w.Unsupported("reduce_scatter into uneven parts", hloTypes(out)...)
	}
	attrs := fmt.Sprintf("scatter_dimension = %d : i64, %s", o.Dim, emitGroups(o))
	y := w.Combine("reduce_scatter", attrs, hloReduce(o.Kind), in[0], hloType(out[0]))
	return []hlo.Ref{emitMean(w, o.Kind, teamSize(o.Mesh, o.Axes), y)}
}

func (reduceScatter) Samples() []Sample {
	return []Sample{
		{Op: reduceScatter{Mesh: "x=1", Axes: "x", Kind: "sum", Dim: 1}, In: []Arg{f32(5, 7)}},
		{Op: reduceScatter{Mesh: "x=1", Axes: "x", Kind: "mean", Sizes: []int{5}, Own: 5}, In: []Arg{f32(5, 7)}},
		{Op: reduceScatter{Mesh: "x=1", Axes: "x", Kind: "max"}, In: []Arg{f32(5, 7)}},
	}
}
