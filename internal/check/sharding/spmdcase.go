package sharding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/mesh"
)

// spmdCase is one op with facts about how its tensors are sharded.
type spmdCase struct {
	ID        string        `json:"id"`
	Op        string        `json:"op"`
	Direction string        `json:"direction"`
	MeshShape []int         `json:"mesh_shape"`
	Inputs    []*spmdTensor `json:"inputs"`
	Outputs   []*spmdTensor `json:"outputs"`
	Attrs     spmdAttrs     `json:"attrs"`
	WantIn    []*spmdTensor `json:"expect_inputs"`
	WantOut   []*spmdTensor `json:"expect_outputs"`
	WantError string        `json:"expect_error"`
	Hazard    string        `json:"numeric_hazard"`
}

// spmdTensor is a tensor of a case: its given sharding, or the asserted one; nil asserts nothing.
type spmdTensor struct {
	Name      string  `json:"name"`
	Shape     []int   `json:"shape"`
	Dims      []int   `json:"dims_mapping"`
	MultiDims [][]int `json:"multi_dims_mapping"`
	Partial   []int   `json:"partial"`
	IsPartial bool    `json:"is_partial"`
	None      bool    `json:"none"`
	Empty     bool    `json:"empty"`
	Valid     *bool   `json:"dims_mapping_valid"`
}

// absent reports whether the tensor does not exist.
func (t *spmdTensor) absent() bool { return t == nil || t.None }

func (t *spmdTensor) illFormed() bool { return t != nil && t.Valid != nil && !*t.Valid }

// mapping returns the mesh dims of each tensor dim, outermost first, and whether any is stated.
func (t *spmdTensor) mapping() ([][]int, bool) {
	if t == nil || t.Empty || t.MultiDims == nil && t.Dims == nil {
		return nil, false
	}
	if t.MultiDims != nil {
		return t.MultiDims, true
	}
	list := make([][]int, len(t.Dims))
	for i, d := range t.Dims {
		if d >= 0 {
			list[i] = []int{d}
		}
	}
	return list, true
}

// spec returns the stated sharding as a Spec for tensors of a rank.
func (t *spmdTensor) spec(m *mesh.Mesh, rank int) (mesh.Spec, error) {
	list, ok := t.mapping()
	if !ok {
		return mesh.Whole(rank), nil
	}
	s := mesh.Whole(rank)
	if len(list) != rank {
		return s, fmt.Errorf("%w: dims_mapping %v: want one entry for each of %d dims", errSpec, list, rank)
	}
	for d, axes := range list {
		for _, a := range axes {
			s.Dims[d] = append(s.Dims[d], mesh.Sub{Axis: axisName(a)})
		}
	}
	var pending []mesh.Pending
	for _, a := range t.Partial {
		pending = append(pending, mesh.Pending{Sub: mesh.Sub{Axis: axisName(a)}})
	}
	s = s.With(pending...)
	if err := s.Check(m, rank); err != nil {
		return s, fmt.Errorf("%w: %w", errSpec, err)
	}
	return s, nil
}

// errSpec is the error for a recorded spec that is invalid.
var errSpec = errors.New("ill-formed spec")

// axisName returns the name of a mesh dim by its number.
func axisName(i int) string { return fmt.Sprintf("d%d", i) }

// spmdMesh returns a mesh with axes named by number.
func spmdMesh(shape []int, devices ...int) (*mesh.Mesh, error) {
	axes := make([]mesh.Axis, len(shape))
	for i, n := range shape {
		axes[i] = mesh.Axis{Name: axisName(i), Size: n}
	}
	return mesh.New(axes, devices...)
}

// contradicts describes how a Spec differs from the stated one; empty if it does not. Axes of size one split
// nothing and are not compared.
func (t *spmdTensor) contradicts(m *mesh.Mesh, got mesh.Spec) string {
	if t == nil || t.Empty {
		return ""
	}
	if list, ok := t.mapping(); ok {
		if len(list) != got.Rank() {
			return fmt.Sprintf("got %s, want %v", got, list)
		}
		for d, axes := range got.Dims {
			if !slices.Equal(splitting(m, axes), named(m, list[d])) {
				return fmt.Sprintf("got %s, want %s", got, t.text())
			}
		}
	}
	return t.contradictsPartial(m, got)
}

func (t *spmdTensor) contradictsPartial(m *mesh.Mesh, got mesh.Spec) string {
	var axes mesh.Axes
	for _, p := range got.Partial {
		axes = append(axes, p.Sub)
	}
	have := splitting(m, axes)
	slices.Sort(have)
	want := named(m, t.Partial)
	slices.Sort(want)
	switch {
	case t.IsPartial && len(have) == 0, t.Partial != nil && !slices.Equal(have, want):
		return fmt.Sprintf("got %s, want %s", got, t.text())
	}
	return ""
}

// splitting returns the names of the axes with more than one device.
func splitting(m *mesh.Mesh, axes mesh.Axes) []string {
	var names []string
	for _, a := range axes {
		if m.Extent(a) > 1 {
			names = append(names, a.String())
		}
	}
	return names
}

func named(m *mesh.Mesh, dims []int) []string {
	var names []string
	for _, d := range dims {
		if a, ok := m.Axis(axisName(d)); !ok || a.Size > 1 {
			names = append(names, axisName(d))
		}
	}
	return names
}

// text prints the stated sharding in the form of Specs.
func (t *spmdTensor) text() string {
	list, ok := t.mapping()
	words := make([]string, len(list))
	for i, axes := range list {
		words[i] = "_"
		if names := axisNames(axes); len(names) > 0 {
			words[i] = strings.Join(names, ".")
		}
	}
	text := "@[" + strings.Join(words, ",") + "]"
	if !ok {
		text = "any dims"
	}
	switch {
	case t.IsPartial:
		text += ", partial"
	case t.Partial != nil && len(t.Partial) == 0:
		text += ", not partial"
	case len(t.Partial) > 0:
		text += "+{" + strings.Join(axisNames(t.Partial), ",") + "}"
	}
	return text
}

func axisNames(dims []int) []string {
	var names []string
	for _, d := range dims {
		names = append(names, axisName(d))
	}
	return names
}

// spmdAttrs are the op's attributes as recorded.
type spmdAttrs map[string]any

func (a spmdAttrs) has(name string) bool { return a[name] != nil }

func (a spmdAttrs) int(name string, otherwise int) int {
	if x, ok := a[name].(float64); ok {
		return int(x)
	}
	return otherwise
}

func (a spmdAttrs) float(name string, otherwise float64) float64 {
	if x, ok := a[name].(float64); ok {
		return x
	}
	return otherwise
}

func (a spmdAttrs) bool(name string) bool {
	x, ok := a[name].(bool)
	return ok && x
}

func (a spmdAttrs) text(name string) string {
	x, _ := a[name].(string)
	return x
}

// ints returns a list of numbers; one number is a list of one.
func (a spmdAttrs) ints(name string) []int {
	if x, ok := a[name].(float64); ok {
		return []int{int(x)}
	}
	list, _ := a[name].([]any)
	out := make([]int, 0, len(list))
	for _, x := range list {
		if n, ok := x.(float64); ok {
			out = append(out, int(n))
		}
	}
	return out
}
