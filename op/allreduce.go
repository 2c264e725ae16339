package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// AllReduce reduces the arrays of the devices along axes element by element. Every device of the group gets
// the result.
func AllReduce(x *Tensor, m *mesh.Mesh, axes mesh.Axes, by mesh.Reduce) *Tensor {
	return apply1(allReduce{Mesh: m.String(), Axes: axes.String(), Kind: by.String()}, x)
}

type allReduce struct {
	collective
	Mesh, Axes, Kind string
	// Async only starts the collective; Wait completes it.
	Async bool
}

func (o allReduce) Started() Op { o.Async = true; return o }

func (allReduce) Name() string             { return "all_reduce" }
func (o allReduce) Over() (string, string) { return o.Mesh, o.Axes }

// InPlace returns nil for an asynchronous op: its source must stay intact while the collective runs.
func (o allReduce) InPlace() []int {
	if o.Async {
		return nil
	}
	return []int{0}
}

func (o allReduce) Infer(in []Type) ([]Type, error) {
	if _, err := wantTeam(in, o.Mesh, o.Axes); err != nil {
		return nil, err
	}
	return in, wantReduce(o.Kind, in[0])
}

func (o allReduce) VJP(in, y, dy []*Tensor) []*Tensor {
	sum := allReduce{Mesh: o.Mesh, Axes: o.Axes, Kind: "sum"}
	return []*Tensor{reducedGrad(o.Mesh, o.Axes, o.Kind, in[0], y[0], apply1(sum, dy[0]))}
}

// reducedGrad returns the gradient of x, one device's term of the reduction y, from dy, the gradient of y.
func reducedGrad(meshText, axes, kind string, x, y, dy *Tensor) *Tensor {
	n := teamSize(meshText, axes)
	switch kind {
	case "sum":
		return dy
	case "mean":
		return MulScalar(dy, 1/float64(n))
	case "max", "min":
		// Devices that hold the same extreme value share the gradient.
		hit := Cast(Equal(x, y), x.DType())
		return Mul(dy, Div(hit, apply1(allReduce{Mesh: meshText, Axes: axes, Kind: "sum"}, hit)))
	case "prod":
		rows := apply1(allGather{Mesh: meshText, Axes: axes}, Unsqueeze(x, 0))
		all := prod{Dims: []int{0}}.VJP([]*Tensor{rows}, []*Tensor{y}, []*Tensor{dy})[0]
		return Reshape(apply1(shardSlice{Mesh: meshText, Axes: axes}, all), x.Shape()...)
	}
	return nil
}

func (o allReduce) Work(in, out []Type) Work {
	n := teamSize(o.Mesh, o.Axes)
	return Work{Flops: ring(n, float64(in[0].Shape.Len())), Bytes: moved(in, out),
		Wire: 2 * ring(n, float64(in[0].Bytes()))}
}

func (o allReduce) Eval(env *Env, in, out []array.Array) {
	g := env.group(o)
	if g == nil {
		copyBytes(env, out[0], in[0])
		return
	}
	env.finish(o, o.Async, out[0], g.StartAllReduce(out[0], in[0], commReduce(o.Kind)))
}

func (o allReduce) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	y := w.Combine("all_reduce", emitGroups(o), hloReduce(o.Kind), in[0], hloType(out[0]))
	return []hlo.Ref{emitMean(w, o.Kind, teamSize(o.Mesh, o.Axes), y)}
}

// emitGroups writes the replica_groups attribute of a collective.
func emitGroups(o Collective) string {
	t, err := newTeam(o.Over())
	if err != nil {
		panic("op: " + o.Name() + ": " + err.Error())
	}
	groups, err := t.mesh.GroupsOver(t.axes)
	if err != nil {
		panic("op: " + o.Name() + ": " + err.Error())
	}
	return hlo.Groups(groups)
}

// hloReduce returns StableHLO's binary op for a reduction. A mean is a sum that is divided later.
func hloReduce(kind string) string {
	return map[string]string{"sum": "add", "mean": "add", "max": "maximum", "min": "minimum", "prod": "multiply",
		"any": "or", "all": "and"}[kind]
}

func emitMean(w *hlo.Writer, kind string, n int, y hlo.Ref) hlo.Ref {
	if kind != "mean" {
		return y
	}
	return w.Op("multiply", "", y.Type, y, w.Constant(y.Type, 1/float64(n)))
}

func (allReduce) Samples() []Sample {
	var all []Sample
	for _, kind := range []string{"sum", "mean", "max", "min", "prod"} {
		all = append(all, Sample{Op: allReduce{Mesh: "x=1", Axes: "x", Kind: kind}, In: []Arg{f32(5, 7)}})
	}
	return append(all, Sample{Op: allReduce{Mesh: "x=1", Axes: "x", Kind: "any"}, In: []Arg{bools(3)}})
}
