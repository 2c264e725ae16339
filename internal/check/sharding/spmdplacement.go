package sharding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/mesh"
)

// errInterleaved is why a placement with a split factor cannot be expressed here.
var errInterleaved = fmt.Errorf("a shard of several blocks (split factor) is no Spec here: devices hold " +
	"one box each")

// tensorOf parses recorded placements, one for each mesh dim: R, P, S1, or S1@0 with the order of the mesh
// dim among those that split dim 1. Placements beyond the mesh's dims are ignored.
func tensorOf(placements []string, rank, meshRank int) (*spmdTensor, error) {
	type split struct{ order, axis int }
	splits := make([][]split, rank)
	t := &spmdTensor{MultiDims: make([][]int, rank), Partial: []int{}}
	for axis, text := range placements[:min(len(placements), meshRank)] {
		switch {
		case text == "R" || text == "dense":
			continue
		case text == "P":
			t.Partial = append(t.Partial, axis)
			continue
		case strings.Contains(text, "/"):
			return nil, errInterleaved
		}
		dimText, orderText, _ := strings.Cut(strings.TrimPrefix(text, "S"), "@")
		dim, err := strconv.Atoi(dimText)
		if err != nil || dim < 0 || dim >= rank {
			return nil, fmt.Errorf("placement %q does not fit %d dims", text, rank)
		}
		order, _ := strconv.Atoi(orderText)
		splits[dim] = append(splits[dim], split{order, axis})
	}
	for d, list := range splits {
		slices.SortStableFunc(list, func(a, b split) int { return a.order - b.order })
		for _, s := range list {
			t.MultiDims[d] = append(t.MultiDims[d], s.axis)
		}
	}
	return t, nil
}

// gridOf reads nested lists of device ids.
func gridOf(raw json.RawMessage) (*mesh.Mesh, error) {
	var x any
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, err
	}
	var shape, devices []int
	for at := x; ; {
		list, ok := at.([]any)
		if !ok || len(list) == 0 {
			break
		}
		shape, at = append(shape, len(list)), list[0]
	}
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, y := range x {
				walk(y)
			}
		case float64:
			devices = append(devices, int(x))
		}
	}
	walk(x)
	return spmdMesh(shape, devices...)
}

// endToEnd is an op on placed tensors with the placements of its result.
type endToEnd struct {
	ID, Op string
	fields map[string]any
	raw    map[string]json.RawMessage
}

// UnmarshalJSON keeps all fields: ops differ in theirs.
func (e *endToEnd) UnmarshalJSON(data []byte) error {
	if err := firstError(json.Unmarshal(data, &e.fields), json.Unmarshal(data, &e.raw)); err != nil {
		return err
	}
	e.ID, _ = e.fields["id"].(string)
	e.Op, _ = e.fields["op"].(string)
	return nil
}

func (e *endToEnd) judge() finding {
	c, err := e.toCase()
	if err != nil {
		return unsupported("%v", err)
	}
	f := c.judge()
	if slices, ok := e.raw["out_local_equals_flattened_input_slice_by_rank"]; ok && f.outcome == agrees {
		return c.checkSlices(slices)
	}
	return f
}

// toCase converts it to the form of the other cases.
func (e *endToEnd) toCase() (*spmdCase, error) {
	attrs := spmdAttrs(e.fields)
	c := &spmdCase{ID: e.ID, Op: e.Op, Direction: "forward", MeshShape: attrs.ints("mesh_shape"), Attrs: attrs}
	if attrs.has("target_shape") && e.Op == "reshape" {
		attrs["shape"] = attrs["target_shape"]
	}
	for _, name := range []string{"input", "x", "y", "index"} {
		shape := attrs.ints(name + "_shape")
		if !attrs.has(name + "_shape") {
			continue
		}
		t, err := tensorOf(words(attrs[name+"_placements"]), len(shape), len(c.MeshShape))
		if err != nil {
			return nil, err
		}
		t.Name, t.Shape = name, shape
		c.Inputs = append(c.Inputs, t)
	}
	if len(c.Inputs) == 0 {
		return nil, fmt.Errorf("%s: no operand is given", e.Op)
	}
	return c, e.addWant(c)
}

// addWant adds the stated results.
func (e *endToEnd) addWant(c *spmdCase) error {
	for _, name := range []string{"output", "out", "indices"} {
		if e.fields[name+"_placements"] == nil {
			continue
		}
		rank := len(c.Inputs[0].Shape)
		for _, shape := range []string{"target_shape", name + "_shape"} {
			if e.fields[shape] != nil {
				rank = len(c.Attrs.ints(shape))
			}
		}
		t, err := tensorOf(words(e.fields[name+"_placements"]), rank, len(c.MeshShape))
		if err != nil {
			return err
		}
		if name == "indices" {
			c.WantOut = append(c.WantOut, nil)
		}
		c.WantOut = append(c.WantOut, t)
	}
	return nil
}

func words(x any) []string {
	list, _ := x.([]any)
	out := make([]string, len(list))
	for i, w := range list {
		out[i], _ = w.(string)
	}
	return out
}

// checkSlices checks that each device's shard of the result is the stated slice of the operand, in
// order.
func (c *spmdCase) checkSlices(raw json.RawMessage) finding {
	var ranges [][][]int
	if err := json.Unmarshal(raw, &ranges); err != nil {
		return fault("%v", err)
	}
	m, err := spmdMesh(c.MeshShape)
	if err != nil {
		return fault("%v", err)
	}
	shape := c.Attrs.ints("shape")
	s, err := c.WantOut[0].spec(m, len(shape))
	if err != nil {
		return fault("%v", err)
	}
	l, err := s.Layout(m, shape)
	if err != nil {
		return fault("%v", err)
	}
	var faults []string
	for rank, want := range ranges {
		box, _ := l.Box(rank)
		if !slices.Equal(flatIndices(box, shape), flatIndices(sliceBox(want, c.Inputs[0].Shape),
			c.Inputs[0].Shape)) {
			faults = append(faults, fmt.Sprintf("device %d holds %s: not the slice %v of the operand", rank, box,
				want))
		}
	}
	return verdictOf(faults)
}

// sliceBox returns a box that is restricted in some dims only.
func sliceBox(ranges [][]int, shape []int) mesh.Box {
	b := mesh.Box{Start: make([]int, len(shape)), Size: slices.Clone(shape)}
	for d, r := range ranges {
		if len(r) == 2 && d < len(shape) {
			b.Start[d], b.Size[d] = r[0], r[1]-r[0]
		}
	}
	return b
}

// flatIndices returns the row-major indices of a box's elements, in order.
func flatIndices(b mesh.Box, shape []int) []int {
	list := []int{0}
	for d, n := range shape {
		next := make([]int, 0, len(list)*b.Size[d])
		for _, at := range list {
			for i := range b.Size[d] {
				next = append(next, at*n+b.Start[d]+i)
			}
		}
		list = next
	}
	return list
}
