package dynamic

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/fit"
)

// Pad pads a batch to the next buckets and appends masks. The sizes are for Cut.
func (s *Shapes) Pad(batch []array.Array) ([]array.Array, Sizes, error) {
	n, err := s.sizesOf(batch)
	if err != nil {
		return nil, n, err
	}
	padded := make([]array.Array, len(batch))
	for i, a := range batch {
		shape := slices.Clone(a.Shape())
		for d, axis := range s.in[i] {
			if axis != fixed {
				shape[d] = n.Bucket[axis]
			}
		}
		fill := 0.0
		if i < len(s.config.Fill) {
			fill = s.config.Fill[i]
		}
		padded[i] = resized(a, shape, fill)
	}
	at := len(padded)
	if s.config.Inputs > 0 {
		at = s.config.Inputs
	}
	for i, dims := range s.masks {
		have, shape := make(array.Shape, len(dims)), make(array.Shape, len(dims))
		for d, axis := range dims {
			have[d], shape[d] = n.Have[axis], n.Bucket[axis]
		}
		ones := array.New(array.F32, have...)
		for k := range ones.Len() {
			ones.Set(k, 1)
		}
		padded = slices.Insert(padded, at+i, resized(ones, shape, 0))
	}
	return padded, n, s.admit(padded, n)
}

// Cut removes the padding from results.
func (s *Shapes) Cut(results []array.Array, n Sizes) ([]array.Array, error) {
	out := slices.Clone(results)
	for i, dims := range s.out {
		if i >= len(results) {
			return nil, fmt.Errorf("dynamic: %d results: want %d, as Out names", len(results), len(s.out))
		}
		a := results[i]
		if len(a.Shape()) != len(dims) {
			return nil, fmt.Errorf(
				"dynamic: result %d is %v%v: want dims %q",
				i,
				a.DType(),
				a.Shape(),
				s.config.Out[i],
			)
		}
		shape := slices.Clone(a.Shape())
		for d, axis := range dims {
			if axis == fixed {
				continue
			}
			if shape[d] != n.Bucket[axis] {
				return nil, fmt.Errorf("dynamic: result %d is %v%v: want %d along %s", i, a.DType(), a.Shape(),
					n.Bucket[axis], s.config.Axes[axis].Name)
			}
			shape[d] = n.Have[axis]
		}
		out[i] = resized(a, shape, 0)
	}
	return out, nil
}

// resized has the elements of a that a shape has room for, and fill elsewhere.
func resized(a array.Array, shape array.Shape, fill float64) array.Array {
	if a.Shape().Equal(shape) {
		return a
	}
	out := array.New(a.DType(), shape...)
	if fill != 0 {
		for i := range out.Len() {
			out.Set(i, fill)
		}
	}
	copyBox(out.Bytes(), a.Bytes(), shape, a.Shape(), a.DType().Size())
	return out
}

// copyBox copies what two arrays have in common.
func copyBox(dst, src []byte, to, from array.Shape, size int) {
	if len(to) == 0 {
		copy(dst, src)
		return
	}
	into, of := to[1:].Len()*size, from[1:].Len()*size
	if to[1:].Equal(from[1:]) {
		copy(dst, src)
		return
	}
	for i := range min(to[0], from[0]) {
		copyBox(dst[i*into:(i+1)*into], src[i*of:(i+1)*of], to[1:], from[1:], size)
	}
}

// Loader returns a loader whose batches are padded, with masks.
func (s *Shapes) Loader(l fit.Loader) fit.Loader { return loader{s, l} }

type loader struct {
	shapes *Shapes
	of     fit.Loader
}

func (l loader) Len() int { return l.of.Len() }

func (l loader) Batch(i int) ([]array.Array, error) {
	batch, err := l.of.Batch(i)
	if err != nil {
		return nil, err
	}
	padded, _, err := l.shapes.Pad(batch)
	return padded, err
}
