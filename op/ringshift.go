package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// RingShift sends each device's array to the device by positions further along axes, wrapping around. Shape
// is that of the received array if it differs from the sent one.
func RingShift(x *Tensor, m *mesh.Mesh, axes mesh.Axes, by int, shape []int) *Tensor {
	return apply1(ringShift{Mesh: m.String(), Axes: axes.String(), By: by, Shape: shape}, x)
}

type ringShift struct {
	collective
	Mesh, Axes string
	By         int
	Shape      []int
}

func (ringShift) Name() string             { return "ring_shift" }
func (o ringShift) Over() (string, string) { return o.Mesh, o.Axes }
func (ringShift) Linear() [][]int          { return [][]int{{0}} }

func (o ringShift) Infer(in []Type) ([]Type, error) {
	if _, err := wantTeam(in, o.Mesh, o.Axes); err != nil {
		return nil, err
	}
	if o.Shape == nil {
		return in, nil
	}
	if len(o.Shape) != len(in[0].Shape) || !array.Shape(o.Shape).Valid() {
		return nil, fmt.Errorf("cannot get a part of shape %v for one like %v", o.Shape, in[0])
	}
	return []Type{{DType: in[0].DType, Shape: o.Shape}}, nil
}

func (o ringShift) VJP(in, _, dy []*Tensor) []*Tensor {
	back := ringShift{Mesh: o.Mesh, Axes: o.Axes, By: -o.By}
	if o.Shape != nil {
		back.Shape = in[0].Shape()
	}
	return []*Tensor{apply1(back, dy[0])}
}

func (o ringShift) Work(in, out []Type) Work {
	w := Work{Bytes: moved(in, out)}
	if n := teamSize(o.Mesh, o.Axes); n > 0 && o.By%n != 0 {
		w.Wire = float64(max(in[0].Bytes(), out[0].Bytes()))
	}
	return w
}

// target returns the position that receives the array of position i of n.
func (o ringShift) target(i, n int) int { return ((i+o.By)%n + n) % n }

func (o ringShift) Eval(env *Env, in, out []array.Array) {
	g := env.group(o)
	if g == nil {
		copyBytes(env, out[0], in[0])
		return
	}
	var pairs []comm.Pair
	for i := range g.Size() {
		pairs = append(pairs, comm.Pair{Source: i, Target: o.target(i, g.Size())})
	}
	_, err := g.Permute(out[0], in[0], pairs)
	must(o, err)
}

func (o ringShift) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if o.Shape != nil {
		return w.Unsupported("ring_shift of uneven parts", hloTypes(out)...)
	}
	t, err := newTeam(o.Mesh, o.Axes)
	must(o, err)
	groups, err := t.mesh.GroupsOver(t.axes)
	must(o, err)
	var pairs [][2]int
	for _, g := range groups {
		for i, id := range g {
			pairs = append(pairs, [2]int{id, g[o.target(i, len(g))]})
		}
	}
	return []hlo.Ref{emitPairs(w, pairs, in[0], out[0])}
}

func (ringShift) Samples() []Sample {
	return []Sample{
		{Op: ringShift{Mesh: "x=1", Axes: "x", By: 1}, In: []Arg{f32(5, 7)}},
		{Op: ringShift{Mesh: "x=1", Axes: "x", By: -1, Shape: []int{5, 7}}, In: []Arg{f32(5, 7)}},
	}
}
