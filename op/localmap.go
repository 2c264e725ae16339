package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// LocalMap applies f to every device's shards: f takes and returns shards, and in and out are the shardings
// of the whole tensors. A result that is partial along an axis is the sum of the shards. Tensors in another
// layout are resharded; on one device the shards are computed one after the other. Shards have equal sizes.
func LocalMap(f func(parts []*Tensor) []*Tensor, m *mesh.Mesh, in, out []mesh.Spec, xs ...*Tensor) []*Tensor {
	o := localMap{Mesh: gridOf(m).String(), In: texts(in), Out: texts(out)}
	program, err := o.trace(f, xs)
	if err != nil {
		return slices.Repeat([]*Tensor{ir.Invalid(xs[0].Scope(), err)}, len(out))
	}
	o.Program = program.String()
	return ir.Apply(o, xs...)
}

// LocalRanks returns the number of dims of each result of f for shards of xs.
func LocalRanks(f func(parts []*Tensor) []*Tensor, m *mesh.Mesh, in []mesh.Spec, xs ...*Tensor) ([]int,
	error) {
	program, err := localMap{Mesh: gridOf(m).String(), In: texts(in)}.trace(f, xs)
	if err != nil {
		return nil, err
	}
	ranks := make([]int, len(program.Results()))
	for i, v := range program.Results() {
		ranks[i] = len(v.Shape())
	}
	return ranks, nil
}

// trace returns f on shards of xs, as a program.
func (o localMap) trace(f func(parts []*Tensor) []*Tensor, xs []*Tensor) (*ir.Func, error) {
	b := ir.NewBuilder("part")
	parts := make([]*Tensor, len(xs))
	for i, x := range xs {
		if x.Err() != nil {
			return nil, x.Err()
		}
		t, err := o.part(i, o.In, x.Type())
		if err != nil {
			return nil, &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: err}
		}
		parts[i] = b.Param("", t)
	}
	program, err := b.Build(f(parts)...)
	if err == nil && len(program.Captures()) > 0 {
		err = &ir.Error{Pos: ir.Caller(), Op: o.Name(),
			Err: fmt.Errorf("the function uses a tensor from outside: pass it as an operand")}
	}
	return program, err
}

// gridOf returns a mesh without its device ids: only the number of shards matters.
func gridOf(m *mesh.Mesh) *mesh.Mesh {
	g, _ := mesh.New(m.Axes()) // the axes are those of a mesh
	return g
}

func texts(specs []mesh.Spec) []string {
	out := make([]string, len(specs))
	for i, s := range specs {
		out[i] = s.String()
	}
	return out
}

// localMap runs a program for every position of a grid.
type localMap struct {
	Program string
	// Mesh is the grid, In and Out are the Specs of operands and results on it.
	Mesh    string
	In, Out []string
}

func (localMap) Name() string         { return "local_map" }
func (o localMap) NumResults(int) int { return len(o.Out) }

// program returns the program for shards of whole operands of these types.
func (o localMap) program(in []Type) (*ir.Func, error) {
	f, err := ir.Parse(o.Program, Lookup)
	if err != nil {
		return nil, err
	}
	if len(in) != len(o.In) || len(f.Params()) != len(in) || len(f.Results()) != len(o.Out) {
		return nil, fmt.Errorf("program takes %d and gives %d: got %d operands of %d and %d results",
			len(f.Params()), len(f.Results()), len(in), len(o.In), len(o.Out))
	}
	b := ir.NewBuilder(f.Name())
	args := make([]*Tensor, len(in))
	for i, t := range in {
		part, err := o.part(i, o.In, t)
		if err != nil {
			return nil, err
		}
		args[i] = b.Param("", part)
	}
	return b.Build(f.Replay(b, args, nil)...)
}

// layout returns the layout of tensor i of a list of Specs.
func (o localMap) layout(i int, specs []string, shape array.Shape) (*mesh.Layout, error) {
	return layoutOf(o.Mesh, specs[i], shape)
}

// part returns the type of one shard of tensor i.
func (o localMap) part(i int, specs []string, t Type) (Type, error) {
	if i >= len(specs) {
		return Type{}, fmt.Errorf("%d operands: want %d, one for each placement", i+1, len(specs))
	}
	l, err := o.layout(i, specs, t.Shape)
	if err != nil {
		return Type{}, err
	}
	if !l.Even() {
		return Type{}, fmt.Errorf("%v is not cut evenly by %s on %s", t, specs[i], o.Mesh)
	}
	return Type{DType: t.DType, Shape: l.MaxShape()}, nil
}

func (o localMap) Infer(in []Type) ([]Type, error) {
	f, err := o.program(in)
	if err != nil {
		return nil, err
	}
	return o.wholes(f)
}

// wholes returns the types of the whole results.
func (o localMap) wholes(f *ir.Func) ([]Type, error) {
	m, err := mesh.Parse(o.Mesh)
	if err != nil {
		return nil, err
	}
	used := o.used()
	out := make([]Type, len(o.Out))
	for i, v := range f.Results() {
		s, err := mesh.ParseSpec(o.Out[i])
		if err != nil {
			return nil, err
		}
		if err := s.Check(m, len(v.Shape())); err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		if err := o.covered(i, s, used); err != nil {
			return nil, err
		}
		out[i] = Type{DType: v.DType(), Shape: v.Shape().Clone()}
		for d, axes := range s.Dims {
			out[i].Shape[d] *= m.Count(axes)
		}
	}
	return out, nil
}

// covered refuses a result that is not split along an axis that splits operands, because its shards need not
// be equal.
func (o localMap) covered(i int, s mesh.Spec, used []string) error {
	own := axisNames(s)
	for _, axis := range used {
		if !slices.Contains(own, axis) {
			return fmt.Errorf("result %d, %v: axis %s cuts an operand: shard the result along it or make it partial",
				i, s, axis)
		}
	}
	for _, p := range s.Partial {
		if p.Reduce != mesh.Sum {
			return fmt.Errorf("result %d, %v: partial results are sums", i, s)
		}
	}
	return nil
}

// used returns the axes that split operands, in order of appearance.
func (o localMap) used() []string {
	var axes []string
	for _, text := range o.In {
		if s, err := mesh.ParseSpec(text); err == nil {
			for _, a := range axisNames(s) {
				if !slices.Contains(axes, a) {
					axes = append(axes, a)
				}
			}
		}
	}
	return axes
}

func axisNames(s mesh.Spec) []string {
	var names []string
	for _, a := range s.Used() {
		names = append(names, a.Axis)
	}
	return names
}

// VJP runs the program's gradient on every shard. For an operand that is replicated along an axis, each shard
// along it contributes a term of the gradient.
func (o localMap) VJP(in, _, dout []*Tensor) []*Tensor {
	f, err := o.program(typesOfValues(in))
	if err != nil {
		return make([]*Tensor, len(in))
	}
	g := localMap{Mesh: o.Mesh, In: slices.Clone(o.In)}
	args, used := slices.Clone(in), o.used()
	b := ir.NewBuilder("part_grad")
	xs := b.ParamsOf(f)
	ys := f.Replay(b, xs, nil)
	var from, cotangents, at []*Tensor
	for i, d := range dout {
		if d == nil {
			continue
		}
		s, _ := mesh.ParseSpec(o.Out[i])
		g.In, args = append(g.In, s.With().String()), append(args, d)
		from, cotangents = append(from, ys[i]), append(cotangents, b.Param("", ys[i].Type()))
	}
	for i, x := range xs {
		if x.DType().IsFloat() {
			at, g.Out = append(at, x), append(g.Out, withPartial(o.In[i], used))
		}
	}
	program, err := b.Build(Grad(from, cotangents, at)...)
	if err != nil {
		return slices.Repeat([]*Tensor{ir.Invalid(in[0].Scope(), err)}, len(in))
	}
	g.Program = program.String()
	return toFloats(in, ir.Apply(g, args...))
}

// toFloats assigns each float operand its gradient.
func toFloats(in, grads []*Tensor) []*Tensor {
	out := make([]*Tensor, len(in))
	for i, x := range in {
		if x.DType().IsFloat() {
			out[i], grads = grads[0], grads[1:]
		}
	}
	return out
}

// withPartial returns a Spec with the axes that it does not name added as partial.
func withPartial(text string, used []string) string {
	s, err := mesh.ParseSpec(text)
	if err != nil {
		return text
	}
	own, partial := axisNames(s), []mesh.Pending(nil)
	for _, a := range used {
		if !slices.Contains(own, a) {
			partial = append(partial, mesh.Pending{Sub: mesh.On(a)[0], Reduce: mesh.Sum})
		}
	}
	return s.With(partial...).String()
}

// Rule has a factor for each axis of the grid, above one for the rest of each dim, which is not split.
func (o localMap) Rule(in []Type) mesh.Rule {
	out, err := o.Infer(in)
	if err != nil {
		return mesh.Unknown
	}
	m, err := mesh.Parse(o.Mesh)
	if err != nil {
		return mesh.Unknown
	}
	w := &mapWords{mesh: m, next: m.NumAxes()}
	lhs := w.side(o.In, in)
	return mesh.Rule(lhs + "->" + w.side(o.Out, out) + ";" + w.notes.String())
}

// mapWords writes the words of a local map's rule.
type mapWords struct {
	mesh  *mesh.Mesh
	next  int
	named [52]bool
	notes strings.Builder
}

func (w *mapWords) side(specs []string, types []Type) string {
	words := make([]string, len(specs))
	for i, text := range specs {
		s, _ := mesh.ParseSpec(text) // Infer has read it
		for d, axes := range s.Dims {
			words[i] += w.dim(axes, types[i].Shape[d])
		}
	}
	return strings.Join(words, ",")
}

func (w *mapWords) dim(axes mesh.Axes, n int) string {
	word := ""
	for _, a := range axes {
		for j, axis := range w.mesh.Axes() {
			if axis.Name == a.Axis && axis.Size > 1 {
				word += w.name(j, axis.Size)
			}
		}
	}
	w.next++
	rest := w.name(w.next-1, n/w.mesh.Count(axes)) + "*"
	if word == "" {
		return rest
	}
	return "(" + word + rest + ")"
}

func (w *mapWords) name(letter, size int) string {
	if !w.named[letter] {
		w.named[letter] = true
		fmt.Fprintf(&w.notes, " %c=%d", letters[letter], size)
	}
	return letters[letter : letter+1]
}

// Localize leaves each device its own positions along each axis.
func (o localMap) Localize(at *Place) (Op, error) {
	m, err := mesh.Parse(o.Mesh)
	if err != nil {
		return nil, err
	}
	axes := m.Axes()
	for j := range axes {
		if f := at.Rule.Index(letters[j]); f >= 0 {
			axes[j].Size = at.Ranges[f].Size
		}
	}
	local, err := mesh.New(axes)
	if err != nil {
		return nil, err
	}
	o.Mesh = local.String()
	return o, nil
}

func (o localMap) Work(in, out []Type) Work {
	w := Work{Bytes: moved(in, out)}
	f, err := o.program(in)
	m, merr := mesh.Parse(o.Mesh)
	if err != nil || merr != nil {
		return w
	}
	for _, n := range f.Nodes() {
		w.Flops += float64(m.Size()) * n.Op().(Op).Work(typesOfValues(n.In()), typesOfValues(n.Out())).Flops
	}
	return w
}

func typesOfValues(vs []*Tensor) []Type {
	ts := make([]Type, len(vs))
	for i, v := range vs {
		ts[i] = v.Type()
	}
	return ts
}

func (localMap) Samples() []Sample {
	square := "func part(%0: f32[2,3], %1: f32[3]) {\n  %2 = mul %0 %0\n  %3 = mul %2 %1\n  %4 = " +
		"sum{dims=[1]} %3\n  return %3 %4\n}\n"
	return []Sample{
		{Op: localMap{Program: square, Mesh: "x=2", In: []string{"@[x,_]", "@[_]"},
			Out: []string{"@[x,_]", "@[x]"}}, In: []Arg{f32(4, 3), f32(3)}},
		{Op: localMap{Program: square, Mesh: "x=2,y=3", In: []string{"@[x,y]", "@[y]"},
			Out: []string{"@[x,y]", "@[x]+{y}"}}, In: []Arg{f32(4, 9), f32(9)}},
	}
}
