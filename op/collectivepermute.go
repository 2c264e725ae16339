package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// CollectivePermute changes the layout of a tensor from one Spec to another by sending whole shards: each
// device sends its shard to the one device that is to hold it. Both Specs must cut the tensor into the same
// shards. Shape is that of the device's new shard if it differs from the old one.
func CollectivePermute(x *Tensor, m *mesh.Mesh, from, to mesh.Spec, shape []int) *Tensor {
	return apply1(collectivePermute{Mesh: m.String(), From: from.String(), To: to.String(), Shape: shape}, x)
}

type collectivePermute struct {
	collective
	Mesh, From, To string
	Shape          []int
}

func (collectivePermute) Name() string { return "collective_permute" }

func (o collectivePermute) Over() (string, string) {
	from, err := mesh.ParseSpec(o.From)
	if err != nil {
		return o.Mesh, "_"
	}
	to, err := mesh.ParseSpec(o.To)
	if err != nil {
		return o.Mesh, "_"
	}
	used := from.Used()
	for _, s := range to.Used() {
		if !slices.Contains(used, s) {
			used = append(used, s)
		}
	}
	// If from and to use different parts of one axis, the whole axis takes part.
	if m, err := mesh.Parse(o.Mesh); err == nil && mesh.Split(used).Check(m, 1) != nil {
		used = wholeAxes(used)
	}
	return o.Mesh, used.String()
}

// wholeAxes returns the whole axes of the given parts, each once.
func wholeAxes(parts mesh.Axes) mesh.Axes {
	var list mesh.Axes
	for _, s := range parts {
		if whole := mesh.On(s.Axis)[0]; !slices.Contains(list, whole) {
			list = append(list, whole)
		}
	}
	return list
}

func (o collectivePermute) Infer(in []Type) ([]Type, error) {
	if len(in) != 1 {
		return nil, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	if _, _, err := o.sources(); err != nil {
		return nil, err
	}
	if o.Shape == nil {
		return in, nil
	}
	if len(o.Shape) != len(in[0].Shape) || !array.Shape(o.Shape).Valid() {
		return nil, fmt.Errorf("cannot make a part of shape %v of parts like %v", o.Shape, in[0])
	}
	return []Type{{DType: in[0].DType, Shape: o.Shape}}, nil
}

// sources returns, for each index in the mesh, the index of the device whose shard is sent there. Devices
// that differ along axes that neither Spec uses do not communicate, and a shard that is in place is not sent.
func (o collectivePermute) sources() (*mesh.Mesh, []int, error) {
	m, err := mesh.Parse(o.Mesh)
	if err != nil {
		return nil, nil, err
	}
	from, err := mesh.ParseSpec(o.From)
	if err != nil {
		return nil, nil, err
	}
	to, err := mesh.ParseSpec(o.To)
	if err != nil {
		return nil, nil, err
	}
	if err := from.Check(m, from.Rank()); err != nil {
		return nil, nil, err
	}
	if err := to.Check(m, to.Rank()); err != nil {
		return nil, nil, err
	}
	a, b := from.Used(), to.Used()
	if m.Count(a) != m.Count(b) {
		return nil, nil, fmt.Errorf("%s and %s cut into %d and %d pieces: want as many", o.From, o.To, m.Count(a),
			m.Count(b))
	}
	a, b = append(a, unusedAxes(m, a, b)...), append(b, unusedAxes(m, b, a)...)
	return m, pairUp(m, a, b), nil
}

// unusedAxes returns the axes that a does not use, those first that other does not use either.
func unusedAxes(m *mesh.Mesh, a, other mesh.Axes) mesh.Axes {
	rest := usedOnlyIn(m, other, a)
	return append(m.Free(append(slices.Clone(a), rest...)), rest...)
}

// usedOnlyIn returns the axes of list that are not in used, in mesh order.
func usedOnlyIn(m *mesh.Mesh, list, used mesh.Axes) mesh.Axes {
	var out mesh.Axes
	for _, s := range m.Free(used) {
		if slices.Contains(list, s) || m.Overlap(s, list) {
			out = append(out, s)
		}
	}
	return out
}

// pairUp returns, for each index in the mesh, the index whose position along axes a equals its own position
// along axes b.
func pairUp(m *mesh.Mesh, a, b mesh.Axes) []int {
	at := make([]int, m.Size())
	for i := range at {
		at[along(m, i, a)] = i
	}
	out := make([]int, m.Size())
	for j := range out {
		out[j] = at[along(m, j, b)]
	}
	return out
}

// along returns the position along axes of the device at an index of the mesh.
func along(m *mesh.Mesh, index int, axes mesh.Axes) int {
	pos := 0
	for _, s := range axes {
		stride := m.Size()
		for _, a := range m.Axes() {
			stride /= a.Size
			if a.Name != s.Axis {
				continue
			}
			pre, n := s.Pre, s.Size
			if n == 0 {
				pre, n = 1, a.Size
			}
			pos = pos*n + index/(stride*(a.Size/(pre*n)))%n
		}
	}
	return pos
}

func (o collectivePermute) VJP(in, y, dy []*Tensor) []*Tensor {
	back := collectivePermute{Mesh: o.Mesh, From: o.To, To: o.From}
	if o.Shape != nil {
		back.Shape = in[0].Shape()
	}
	return []*Tensor{apply1(back, dy[0])}
}

func (o collectivePermute) Work(in, out []Type) Work {
	w := Work{Bytes: moved(in, out)}
	if _, source, err := o.sources(); err == nil {
		for i, s := range source {
			if i != s {
				w.Wire = float64(in[0].Bytes())
			}
		}
	}
	return w
}

func (o collectivePermute) Eval(env *Env, in, out []array.Array) {
	m, source, err := o.sources()
	must(o, err)
	var pairs []comm.Pair
	for t, s := range source {
		pairs = append(pairs, comm.Pair{Source: s, Target: t})
	}
	if len(pairs) <= 1 {
		copyBytes(env, out[0], in[0])
		return
	}
	g := env.join(o, func(int) ([]int, error) { return m.Devices(), nil })
	_, err = g.Permute(out[0], in[0], pairs)
	must(o, err)
}

func (o collectivePermute) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	if o.Shape != nil && !in[0].Shape.Equal(o.Shape) {
		return w.Unsupported("collective_permute of uneven parts", hloTypes(out)...)
	}
	m, source, err := o.sources()
	must(o, err)
	ids := m.Devices()
	pairs := make([][2]int, len(source))
	for t, s := range source {
		pairs[t] = [2]int{ids[s], ids[t]}
	}
	return []hlo.Ref{emitPairs(w, pairs, in[0], out[0])}
}

// emitPairs writes a collective permute in which the first device of each pair sends its array to the second.
func emitPairs(w *hlo.Writer, pairs [][2]int, x hlo.Ref, out Type) hlo.Ref {
	words := make([]string, len(pairs))
	for i, p := range pairs {
		words[i] = fmt.Sprintf("[%d, %d]", p[0], p[1])
	}
	attrs := fmt.Sprintf("source_target_pairs = dense<[%s]> : tensor<%dx2xi64>", strings.Join(words, ", "),
		len(words))
	return w.Op("collective_permute", attrs, hloType(out), x)
}

func (collectivePermute) Samples() []Sample {
	return []Sample{
		{Op: collectivePermute{Mesh: "x=1,y=1", From: "@[x,y]", To: "@[y,x]"}, In: []Arg{f32(5, 7)}},
		{Op: collectivePermute{Mesh: "x=1,y=1", From: "@[x,_]", To: "@[y,_]", Shape: []int{5, 7}},
			In: []Arg{f32(5, 7)}},
	}
}
