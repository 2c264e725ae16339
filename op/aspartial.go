package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AsPartial turns a tensor that is replicated along axes into an unreduced one: the first device along axes
// keeps its copy, the others get the neutral element of the reduction. It needs no communication.
func AsPartial(x *Tensor, m *mesh.Mesh, axes mesh.Axes, by mesh.Reduce) *Tensor {
	return apply1(asPartial{Mesh: m.String(), Axes: axes.String(), Kind: by.String()}, x)
}

type asPartial struct {
	collective
	Mesh, Axes, Kind string
}

func (asPartial) Name() string             { return "as_partial" }
func (o asPartial) Over() (string, string) { return o.Mesh, o.Axes }
func (asPartial) InPlace() []int           { return []int{0} }

func (o asPartial) Infer(in []Type) ([]Type, error) {
	if _, err := wantTeam(in, o.Mesh, o.Axes); err != nil {
		return nil, err
	}
	return in, wantReduce(o.Kind, in[0])
}

// idempotent reports whether reducing equal copies gives the copy again, as max and min do.
func (o asPartial) idempotent() bool { return o.Kind != "sum" && o.Kind != "prod" }

func (o asPartial) VJP(_, _, dy []*Tensor) []*Tensor {
	if o.idempotent() {
		return dy
	}
	return []*Tensor{apply1(asPartial{Mesh: o.Mesh, Axes: o.Axes, Kind: "sum"}, dy[0])}
}

func (asPartial) Work(in, out []Type) Work { return Work{Bytes: moved(in, out)} }

func (o asPartial) Eval(env *Env, in, out []array.Array) {
	if o.idempotent() || position(env.group(o)) == 0 {
		copyBytes(env, out[0], in[0])
		return
	}
	by, err := mesh.ParseReduce(o.Kind)
	must(o, err)
	neutral(env, by, out[0])
}

func (o asPartial) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if o.idempotent() {
		return in
	}
	at := emitPartStarts(w, o, 1, 0, 1)[0]
	first := w.Compare("EQ", at, w.Constant(at.Type, 0))
	return []hlo.Ref{w.Op("select", "", hloType(out[0]), first, in[0],
		w.Constant(hloType(out[0]), neutralOf(o.Kind, out[0].DType)))}
}

func (asPartial) Samples() []Sample {
	return []Sample{
		{Op: asPartial{Mesh: "x=1", Axes: "x", Kind: "sum"}, In: []Arg{f32(5, 7)}},
		{Op: asPartial{Mesh: "x=1", Axes: "x", Kind: "max"}, In: []Arg{f32(5, 7)}},
	}
}
