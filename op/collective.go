package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/mesh"
)

// Collective is implemented by ops of a local program in which devices communicate. Its attributes name a
// mesh and the axes along which the devices of a group differ; the members of a group are ordered by the
// axes, the first one varying slowest. All devices of a group run it with the same attributes, except for the
// size of their own part.
//
// Gradients are those of all devices' programs as one function: its operands are the values on all devices,
// its results all that they return, and the VJP is the transpose of that function. So the gradient of a
// replicated value is unreduced, a sum of the devices' terms, and each term of a sum receives the whole
// gradient: an all-gather becomes a reduce-scatter and back, an all-reduce an all-reduce, a slice a padding
// with zeros. Plain ops behave the same way when they are differentiated on local values, so local programs
// can be differentiated like any other. A loss that is replicated must not be counted once per copy.
type Collective interface {
	Op
	// Over returns the mesh, and the axes along which the op communicates.
	Over() (meshText, axes string)
}

// collective is embedded by all of them: they move bytes of any dtype, and local programs are not split
// again.
type collective struct{}

func (collective) halfNative()           {}
func (collective) Rule([]Type) mesh.Rule { return mesh.Unknown }

// CommError is the failure of a collective while a program runs. Eval panics with it; a backend recovers and
// returns it.
type CommError struct {
	Op  string
	Err error
}

func (e *CommError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the communication world.
func (e *CommError) Unwrap() error { return e.Err }

// team is the parsed mesh and axes of a collective.
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

// teamSize returns the number of members of each group, or 0 if the attributes are invalid, which Infer
// reports.
func teamSize(meshText, axesText string) int {
	t, err := newTeam(meshText, axesText)
	if err != nil {
		return 0
	}
	return t.mesh.Count(t.axes)
}

// group returns the group of the computing device, or nil if the device is its only member.
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

// join gets a group of the computing device from the world.
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

// position returns the device's index in a group; a group of one may be nil.
func position(g *comm.Group) int {
	if g == nil {
		return 0
	}
	return g.Pos()
}

// wantTeam checks a collective's attributes and returns the size of its groups.
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

// joined returns the size of a dim whose n parts, one per device, have the given sizes; own is the size of
// the computing device's part. Nil sizes mean equal parts.
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

// equalParts returns sizes, or n equal parts of size if sizes is nil.
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

// ring returns the bytes that each of n devices sends in a ring algorithm over the given bytes.
func ring(n int, bytes float64) float64 {
	if n <= 1 {
		return 0
	}
	return bytes * float64(n-1) / float64(n)
}

// neutral fills an array with the neutral element of a reduction.
func neutral(env *Env, kind mesh.Reduce, a array.Array) {
	o := full{DType: a.DType(), Shape: a.Shape(), Value: neutralOf(kind.String(), a.DType())}
	o.Eval(env, nil, []array.Array{a})
}

// neutralOf returns the neutral element of a reduction.
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

// even returns nil if all sizes are equal, as StableHLO's collectives require, else sizes.
func even(sizes []int) []int {
	for _, n := range sizes {
		if n != sizes[0] {
			return sizes
		}
	}
	return nil
}

// wantReduce checks that a reduction exists and supports the dtype.
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
