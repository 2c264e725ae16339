package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// maxCutDims bounds the number of dims of one tensor that may be split, because each doubles the cost.
const maxCutDims = 16

// checkTiling returns an error unless boxes cover a tensor of a shape, every element once. The boxes are
// within the shape.
//
// It adds up the corners of all boxes, those with an even number of upper ends as +1 and the others as -1:
// the mixed difference of how often each element is covered. That equals the whole tensor's own if and only
// if every element is covered once; so no two boxes are ever compared.
func checkTiling(shape []int, boxes []mesh.Box) error {
	whole := boxOf(shape)
	if whole.Empty() {
		if len(boxes) > 0 {
			return fmt.Errorf("boxes: got %d, want none of an empty tensor", len(boxes))
		}
		return nil
	}
	dims := cutDims(shape, boxes)
	if len(dims) > maxCutDims {
		return fmt.Errorf("boxes: got %d dims cut, want at most %d", len(dims), maxCutDims)
	}
	if len(dims) == 0 {
		if len(boxes) != 1 {
			return fmt.Errorf("boxes: the whole tensor is there %d times, want once", len(boxes))
		}
		return nil
	}
	corners := map[string]int{}
	addCorners(corners, whole, dims, -1)
	for _, b := range boxes {
		addCorners(corners, b, dims, 1)
	}
	for _, n := range corners {
		if n != 0 {
			return errors.New("boxes do not cover the tensor, each element once")
		}
	}
	return nil
}

// cutDims returns the dims along which some box is not all of the tensor.
func cutDims(shape []int, boxes []mesh.Box) []int {
	var dims []int
	for d, n := range shape {
		if slices.ContainsFunc(boxes, func(b mesh.Box) bool { return b.Size[d] != n }) {
			dims = append(dims, d)
		}
	}
	return dims
}

func addCorners(corners map[string]int, b mesh.Box, dims []int, sign int) {
	key := make([]byte, 8*len(dims))
	var walk func(i, sign int)
	walk = func(i, sign int) {
		if i == len(dims) {
			corners[string(key)] += sign
			return
		}
		d := dims[i]
		binary.LittleEndian.PutUint64(key[8*i:], uint64(b.Start[d]))
		walk(i+1, sign)
		binary.LittleEndian.PutUint64(key[8*i:], uint64(b.Start[d]+b.Size[d]))
		walk(i+1, -sign)
	}
	walk(0, sign)
}

// checkBox returns an error for a box that is not within a shape.
func checkBox(shape []int, b mesh.Box) error {
	ok := len(b.Start) == len(shape) && len(b.Size) == len(shape)
	for d := 0; ok && d < len(shape); d++ {
		// Not Start+Size, which may overflow.
		ok = b.Start[d] >= 0 && b.Size[d] >= 0 && b.Start[d] <= shape[d] && b.Size[d] <= shape[d]-b.Start[d]
	}
	if !ok {
		return fmt.Errorf("box: got start %v and size %v, want a place in %v", b.Start, b.Size, array.Shape(shape))
	}
	return nil
}

// checkType returns an error for a type that no array has.
func checkType(t ir.Type) error {
	if !slices.Contains(array.DTypes(), t.DType) || !t.Shape.Valid() {
		return fmt.Errorf("type: got %v%v, want an array's", t.DType, t.Shape)
	}
	return nil
}

// checkName returns an error for a name that is empty, not valid text, or in seen, and adds it to seen.
func checkName(noun, name string, seen map[string]bool) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name", noun)
	case seen[name]:
		return fmt.Errorf("two %ss named %q", noun, name)
	}
	seen[name] = true
	return checkUTF8(noun, name, name)
}

func checkUTF8(noun, name, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s %q: not UTF-8", noun, name)
	}
	return nil
}
