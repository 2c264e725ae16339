package sharding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/mesh"
)

// reshardCase is a reshard of a tensor, with facts about what devices hold afterwards.
type reshardCase struct {
	ID     string                     `json:"id"`
	Kind   string                     `json:"kind"`
	Mode   string                     `json:"mode"`
	Shape  []int                      `json:"shape"`
	Src    placed                     `json:"src"`
	Dst    placed                     `json:"dst"`
	Expect map[string]json.RawMessage `json:"expect"`
}

type placed struct {
	Mesh       json.RawMessage `json:"mesh"`
	Placements []string        `json:"placements"`
}

func (p placed) layout(shape []int) (*mesh.Layout, error) {
	m, err := gridOf(p.Mesh)
	if err != nil {
		return nil, err
	}
	t, err := tensorOf(p.Placements, len(shape), m.NumAxes())
	if err != nil {
		return nil, err
	}
	s, err := t.spec(m, len(shape))
	if err != nil {
		return nil, err
	}
	return s.Layout(m, shape)
}

func (c *reshardCase) judge() finding {
	if c.Expect["program"] != nil {
		return unsupported("a program over several meshes, with a loss and a gradient")
	}
	from, err := c.Src.layout(c.Shape)
	if err == nil {
		var to *mesh.Layout
		if to, err = c.Dst.layout(c.Shape); err == nil {
			return c.check(from, to)
		}
	}
	if errors.Is(err, errInterleaved) {
		return unsupported("%v", err)
	}
	return fault("%v", err)
}

// check reshards data from one layout to the other and compares all that is stated.
func (c *reshardCase) check(from, to *mesh.Layout) finding {
	values, err := reshardValues(from, to)
	if err != nil {
		return fault("%v", err)
	}
	var faults []string
	compared := 0
	for _, key := range slices.Sorted(maps.Keys(c.Expect)) {
		check := c.checks()[key]
		if check == nil {
			continue
		}
		compared++
		faults = append(faults, check(from, to, values, c.Expect[key])...)
	}
	plan := c.comparePlan(from, to)
	switch _, listed := c.recordedPlan(); {
	case len(faults) > 0 && c.termsAreOthers(to, values):
		return finding{outcome: isBetter,
			reason: "terms that add up to the same are made of what each device holds: " + strings.Join(faults, "; ")}
	case len(faults) > 0:
		return verdictOf(append(faults, plan.faults...))
	case plan.outcome == isUnsupported && compared > 0, !listed && compared > 0:
		return finding{}
	case !listed:
		return unsupported("nothing is stated that could be compared")
	}
	return plan
}

// termsAreOthers reports whether devices hold other terms of a sum than recorded, with the same
// sum.
func (c *reshardCase) termsAreOthers(to *mesh.Layout, got held) bool {
	if len(to.Spec().Partial) == 0 || c.Expect["local_shape_by_rank"] != nil &&
		len(checkShapes(to, c.Expect["local_shape_by_rank"])) > 0 {
		return false
	}
	words, terms := map[int]string{}, held{}
	if json.Unmarshal(c.Expect["local_value_by_rank"], &words) != nil {
		return false
	}
	for device := range to.Boxes() {
		terms[device] = inWords(to, device, words[device])
	}
	ours, theirs := addUp(to, got), addUp(to, terms)
	for device, box := range to.Boxes() {
		want := numbered(box, to.Shape())
		if !slices.Equal(ours[device], want) || !slices.Equal(theirs[device], want) {
			return false
		}
	}
	return true
}

// held is what each device holds.
type held map[int][]float64

type reshardCheck func(from, to *mesh.Layout, got held, raw json.RawMessage) []string

func (c *reshardCase) checks() map[string]reshardCheck {
	return map[string]reshardCheck{
		"runs": func(_, _ *mesh.Layout, _ held, _ json.RawMessage) []string { return nil },
		"local_shape_by_rank": func(_, to *mesh.Layout, _ held, raw json.RawMessage) []string {
			return checkShapes(to, raw)
		},
		"src_local_shape_by_rank": func(from, _ *mesh.Layout, _ held, raw json.RawMessage) []string {
			return checkShapes(from, raw)
		},
		"global_shape": func(_, to *mesh.Layout, _ held, raw json.RawMessage) []string {
			var want []int
			if err := json.Unmarshal(raw, &want); err != nil || !slices.Equal(want, to.Shape()) {
				return []string{fmt.Sprintf("global shape %v: want %s", to.Shape(), raw)}
			}
			return nil
		},
		"local_value":         checkValue,
		"local_value_by_rank": checkValues,
		"value_before": func(from, _ *mesh.Layout, _ held, raw json.RawMessage) []string {
			return checkMapping(from, raw)
		},
		"value_after": func(_, to *mesh.Layout, _ held,
			raw json.RawMessage) []string {
			return checkMapping(to, raw)
		},
		"operand": func(from, _ *mesh.Layout, _ held,
			raw json.RawMessage) []string {
			return checkMapping(from, raw)
		},
		"result": func(_, to *mesh.Layout, _ held,
			raw json.RawMessage) []string {
			return checkMapping(to, raw)
		},
		"all_gather_operand": func(from, _ *mesh.Layout, _ held,
			raw json.RawMessage) []string {
			return checkMapping(from, raw)
		},
		"all_gather_result": func(_, to *mesh.Layout, _ held,
			raw json.RawMessage) []string {
			return checkMapping(to, raw)
		},
	}
}

func checkMapping(l *mesh.Layout, raw json.RawMessage) []string {
	var want spmdTensor
	if err := json.Unmarshal(raw, &want); err != nil {
		return []string{err.Error()}
	}
	if text := want.contradicts(l.Mesh(), l.Spec()); text != "" {
		return []string{text}
	}
	return nil
}

func checkShapes(l *mesh.Layout, raw json.RawMessage) (faults []string) {
	want := map[int][]int{}
	if err := json.Unmarshal(raw, &want); err != nil {
		return []string{err.Error()}
	}
	for _, device := range l.Mesh().Devices() {
		shape, ok := want[device]
		if got, _ := l.LocalShape(device); ok && !slices.Equal(got, shape) {
			faults = append(faults, fmt.Sprintf("device %d holds %v: want %v", device, got, shape))
		}
	}
	return faults
}

// checkValue checks the values of all devices: everything, or their own slice.
func checkValue(_, to *mesh.Layout, got held, raw json.RawMessage) (faults []string) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return []string{err.Error()}
	}
	for _, device := range to.Mesh().Devices() {
		faults = append(faults, checkHeld(to, got, device, text)...)
	}
	return faults
}

func checkValues(_, to *mesh.Layout, got held, raw json.RawMessage) (faults []string) {
	want := map[int]json.RawMessage{}
	if err := json.Unmarshal(raw, &want); err != nil {
		return []string{err.Error()}
	}
	for _, device := range to.Mesh().Devices() {
		x, ok := want[device]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal(x, &text) == nil {
			faults = append(faults, checkHeld(to, got, device, text)...)
			continue
		}
		if list := numbersIn(x); !slices.Equal(got[device], list) {
			faults = append(faults, fmt.Sprintf("device %d holds %v: want %v", device, got[device], list))
		}
	}
	return faults
}

// numbersIn returns the numbers of nested lists, in order.
func numbersIn(raw json.RawMessage) []float64 {
	var list []float64
	for _, w := range bytes.FieldsFunc(raw, func(r rune) bool { return strings.ContainsRune("[], \n", r) }) {
		if x, err := strconv.ParseFloat(string(w), 64); err == nil {
			list = append(list, x)
		}
	}
	return list
}

// checkHeld compares with a value described in words.
func checkHeld(to *mesh.Layout, got held, device int, text string) []string {
	if !slices.Equal(got[device], inWords(to, device, text)) {
		return []string{fmt.Sprintf("device %d does not hold what it should: %s", device, text)}
	}
	return nil
}

// inWords returns a value described in words: global, zeros, slice 0 of 2 along axis 0, or anything else for
// the device's own shard.
func inWords(to *mesh.Layout, device int, text string) []float64 {
	shape := to.Shape()
	whole := mesh.Box{Start: make([]int, len(shape)), Size: slices.Clone(shape)}
	own, _ := to.Box(device)
	var part, parts, axis int
	switch n, _ := fmt.Sscanf(text, "slice %d of %d along axis %d", &part, &parts, &axis); {
	case n == 3:
		r := mesh.Chunk(shape[axis], parts, part)
		whole.Start[axis], whole.Size[axis] = r.Start, r.Size
		return numbered(whole, shape)
	case text == "global":
		return numbered(whole, shape)
	case text == "zeros":
		return make([]float64, own.Len())
	}
	return numbered(own, shape)
}

// numbered returns the elements of a box of a tensor whose elements are 1, 2, 3, ….
func numbered(b mesh.Box, shape []int) []float64 {
	at := flatIndices(b, shape)
	list := make([]float64, len(at))
	for i, x := range at {
		list[i] = float64(x + 1)
	}
	return list
}

// reshardValues shards a tensor of numbers, with terms of sums at position 0 along unreduced axes, reshards
// it to the other layout, and returns what each device then holds: on one mesh by the moves of a reshard,
// between meshes by transfers.
func reshardValues(from, to *mesh.Layout) (held, error) {
	if from.Mesh().Equal(to.Mesh()) {
		return carryOut(from, to, terms(from))
	}
	combined, err := from.Spec().With().Layout(from.Mesh(), from.Shape())
	if err != nil {
		return nil, err
	}
	target, err := to.Spec().With().Layout(to.Mesh(), to.Shape())
	if err != nil {
		return nil, err
	}
	source := addUp(from, terms(from))
	transfers, err := mesh.Intersect(combined, target)
	if err != nil {
		return nil, err
	}
	got := held{}
	for device, box := range target.Boxes() {
		got[device] = make([]float64, box.Len())
	}
	for _, t := range transfers {
		src, _ := combined.Box(t.From)
		dst, _ := target.Box(t.To)
		read, write := flatIndices(t.Box.Within(src), src.Size), flatIndices(t.Box.Within(dst), dst.Size)
		for i := range read {
			got[t.To][write[i]] = source[t.From][read[i]]
		}
	}
	return keepFirst(to, got), nil
}

// terms returns what devices hold of a tensor of numbers: along unreduced axes only the first has nonzero
// values.
func terms(l *mesh.Layout) held {
	h := held{}
	for device, box := range l.Boxes() {
		h[device] = numbered(box, l.Shape())
	}
	return keepFirst(l, h)
}

// keepFirst clears what devices beyond the first along partial axes hold.
func keepFirst(l *mesh.Layout, h held) held {
	for _, p := range l.Spec().Partial {
		groups, _ := l.Mesh().GroupsOver(mesh.Axes{p.Sub})
		for _, g := range groups {
			for _, device := range g[1:] {
				clear(h[device])
			}
		}
	}
	return h
}

// addUp reduces what devices hold along unreduced axes, one axis after the other.
func addUp(l *mesh.Layout, h held) held {
	for _, p := range l.Spec().Partial {
		groups, _ := l.Mesh().GroupsOver(mesh.Axes{p.Sub})
		for _, g := range groups {
			sum := make([]float64, len(h[g[0]]))
			for _, device := range g {
				for i, x := range h[device] {
					sum[i] += x
				}
			}
			for _, device := range g {
				h[device] = slices.Clone(sum)
			}
		}
	}
	return h
}
