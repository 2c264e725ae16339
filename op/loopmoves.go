package op

import "github.com/galley-ml/galley/array"

// elemWalk locates the elements of one tensor in another, in the order of the first.
type elemWalk struct {
	offset int
	dims   []walkDim // merged
}

// newElemWalk returns the walk over a tensor of a shape with the given strides in the other tensor.
func newElemWalk(shape array.Shape, offset int, strides []int) elemWalk {
	dims := make([]walkDim, len(shape))
	for d, n := range shape {
		dims[d] = walkDim{n, strides[d]}
	}
	return elemWalk{offset, mergedDims(dims)}
}

// run returns the number of adjacent elements that stay adjacent; 0 if none do.
func (w elemWalk) run() int {
	if last := w.dims[len(w.dims)-1]; last.stride == 1 {
		return last.size
	}
	return 0
}

// inRows splits the walk into rows of cols elements.
func (w elemWalk) inRows(cols int) (rowWalk, bool) {
	r, ok := inRows(w.dims, cols)
	r.offset = w.offset
	return r, ok
}

// moveLoop returns the loop of an op that moves elements, if it keeps adjacent elements together.
func moveLoop(l Loop) (Loop, bool) {
	if l.Kind == LoopWalk && l.Reads.run() < 2 {
		return Loop{}, false
	}
	for _, w := range l.Writes {
		if w.run() < 2 {
			return Loop{}, false
		}
	}
	return l, true
}
