package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/mesh"
)

// Collective is an op of a local program in which devices exchange data. Its attributes name a mesh and the
// axes along which the devices of a group differ; the group's members stand in the order of the axes, the
// first one slowest. All devices of a group run it with the same attributes, but for what says how large
// their own part is.
//
// Gradients are those of the world as one function: its operands are what all devices hold, its result all
// that they return, and the VJP is the transpose of that. So a copy's gradient is spread over the devices as
// terms of a sum, and the terms of a sum each have the whole gradient: an all-gather turns into a
// reduce-scatter and back, a sum over devices into a sum, a slice into zeros around it. This is what plain
// ops do when they are differentiated on local values, so local programs can be differentiated like any
// other. Copies of one number must not each be counted as a loss.
type Collective interface {
	Op
	// Over returns the mesh, and the axes along which the op exchanges.
	Over() (meshText, axes string)
}

// collective is the family: the ops move bytes of any dtype, and local programs are not split again.
type collective struct{}

func (collective) halfNative()           {}
func (collective) Rule([]Type) mesh.Rule { return mesh.Unknown }

// CommError is a collective that went wrong while a program ran: Eval panics with it, and a backend recovers
// it and returns it.
type CommError struct {
	Op  string
	Err error
}

func (e *CommError) Error() string { return e.Err.Error() }

// Unwrap returns what the world reported.
func (e *CommError) Unwrap() error { return e.Err }

// team is the mesh and axes of a collective, read from its attributes.
type team struct {
	mesh *mesh.Mesh
	axes mesh.Axes
}

func newTeam(meshText, axesText string) (team, error) {
	m, err := mesh.Parse(meshText)
	if err != nil {
		return team{}, err
	}
	axes, err := mesh.ParseAxes(axesText)
	if err != nil {
		return team{}, err
	}
	return team{m, axes}, mesh.Split(axes).Check(m, 1)
}

// size is the number of members of each group; 0 if the attributes are not valid, which Infer reports.
func teamSize(meshText, axesText string) int {
	t, err := newTeam(meshText, axesText)
	if err != nil {
		return 0
	}
	return t.mesh.Count(t.axes)
}

// group returns the group of the device that computes, nil where it has one member only.
func (env *Env) group(o Collective) *comm.Group {
	meshText, axes := o.Over()
	key := meshText + "/" + axes
	if g, ok := env.groups[key]; ok {
		return g
	}
	t, err := newTeam(meshText, axes)
	if err != nil {
		panic("op: " + o.Name() + ": " + err.Error())
	}
	var g *comm.Group
	if t.mesh.Count(t.axes) > 1 {
		g = env.join(o, func(id int) ([]int, error) { return t.mesh.GroupOf(id, t.axes) })
	}
	if env.groups == nil {
		env.groups = map[string]*comm.Group{}
	}
	env.groups[key] = g
	return g
}

// join asks the world for a group of the device that computes.
func (env *Env) join(o Collective, members func(id int) ([]int, error)) *comm.Group {
	meshText, axes := o.Over()
	if env.Comm == nil {
		panic(fmt.Sprintf("op: %s over %s of mesh %s: the device runs alone: want a world to reach its peers",
			o.Name(), axes, meshText))
	}
	ranks, err := members(env.Comm.ID())
	if err != nil {
		panic(&CommError{o.Name(), err})
	}
	g, err := env.Comm.Group(ranks)
	if err != nil {
		panic(&CommError{o.Name(), err})
	}
	return g
}

// must panics with the error of a collective.
func must(o Op, err error) {
	if err != nil {
		panic(&CommError{o.Name(), err})
	}
}

// Members returns the group of a device in a collective.
func Members(o Collective, device int) ([]int, error) {
	t, err := newTeam(o.Over())
	if err != nil {
		return nil, err
	}
	return t.mesh.GroupOf(device, t.axes)
}

// position returns the device's place in a group; a group of one may be nil.
func position(g *comm.Group) int {
	if g == nil {
		return 0
	}
	return g.Pos()
}

// wantTeam checks a collective's attributes and gives the size of its groups.
func wantTeam(in []Type, meshText, axes string, dims ...int) (int, error) {
	if len(in) != 1 {
		return 0, fmt.Errorf("want 1 operand: got %d", len(in))
	}
	t, err := newTeam(meshText, axes)
	if err != nil {
		return 0, err
	}
	for _, d := range dims {
		if err := wantDim(in[0], d); err != nil {
			return 0, err
		}
	}
	return t.mesh.Count(t.axes), nil
}

// joined returns the size of a dim of which n devices hold parts of the given sizes, the computing one own;
// nil sizes mean equal parts.
func joined(n, own int, sizes []int) (int, error) {
	if sizes == nil {
		return n * own, nil
	}
	if len(sizes) != n || !slices.Contains(sizes, own) {
		return 0, fmt.Errorf("parts of sizes %v on %d devices: got a part of %d", sizes, n, own)
	}
	return sum64(sizes), nil
}

// cut returns the size of the computing device's part of a dim; nil sizes mean equal parts.
func cut(n, size, own int, sizes []int) (int, error) {
	if sizes == nil {
		if n == 0 || size%n != 0 {
			return 0, fmt.Errorf("cannot cut %d elements into %d equal parts: want their sizes", size, n)
		}
		return size / n, nil
	}
	if len(sizes) != n || sum64(sizes) != size || !slices.Contains(sizes, own) {
		return 0, fmt.Errorf("cannot cut %d elements on %d devices into %v with an own part of %d", size, n, sizes,
			own)
	}
	return own, nil
}

func sum64(xs []int) int {
	n := 0
	for _, x := range xs {
		n += x
	}
	return n
}

// equalParts returns sizes, or n equal parts of size where there are none.
func equalParts(n, size int, sizes []int) []int {
	if sizes != nil {
		return sizes
	}
	return slices.Repeat([]int{size / n}, n)
}

// withDim returns t with another size along dim.
func withDim(t Type, dim, size int) Type {
	shape := t.Shape.Clone()
	shape[dim] = size
	return Type{DType: t.DType, Shape: shape}
}

// ring returns the share of bytes that a device sends when n devices pass parts of them round.
func ring(n int, bytes float64) float64 {
	if n <= 1 {
		return 0
	}
	return bytes * float64(n-1) / float64(n)
}

// neutral fills an array with the element that changes nothing under a reduction.
func neutral(env *Env, kind mesh.Reduce, a array.Array) {
	o := full{DType: a.DType(), Shape: a.Shape(), Value: neutralOf(kind.String(), a.DType())}
	o.Eval(env, nil, []array.Array{a})
}

// neutralOf returns the element that changes nothing under a reduction.
func neutralOf(kind string, d array.DType) float64 {
	switch kind {
	case "max":
		return lowest(d)
	case "min":
		return highest(d)
	case "prod", "all":
		return 1
	}
	return 0
}

// even returns sizes, or nil where they are all equal: what the dialect's collectives want.
func even(sizes []int) []int {
	for _, n := range sizes {
		if n != sizes[0] {
			return sizes
		}
	}
	return nil
}

// wantReduce checks that a reduction is known and can combine elements of a type.
func wantReduce(kind string, t Type) error {
	by, err := comm.ParseReduce(kind)
	if err == nil && !by.Takes(t.DType) {
		err = fmt.Errorf("%s cannot combine %v", kind, t)
	}
	return err
}

func commReduce(kind string) comm.Reduce {
	by, err := comm.ParseReduce(kind)
	if err != nil {
		panic("op: collective: " + err.Error())
	}
	return by
}
