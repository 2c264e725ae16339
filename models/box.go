package models

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
)

// boxBytes is the approximate number of bytes that are read from a file at once for a box.
const boxBytes = 1 << 20

// ReadBox reads a box of a parameter into an array of its size, of any float dtype. It reads only the rows of
// the box, a megabyte at a time, so that a device with a shard of a parameter never reads the rest.
func (w *Weights) ReadBox(p *nn.Param, box mesh.Box, dst array.Array) error {
	if err := readBox(w.src, p, box, dst); err != nil {
		return fmt.Errorf("models: %s: %w", w.path, err)
	}
	return nil
}

func readBox(s store, p *nn.Param, box mesh.Box, dst array.Array) error {
	if box.Empty() {
		return nil
	}
	if l, ok := s.(*loader); ok && l.stored(p) {
		return l.readBox(p, box, dst)
	}
	whole, err := s.read(p) // integers are dequantized as a whole
	if err == nil {
		array.CopyBox(dst, make([]int, len(box.Size)), converted(whole, dst.DType()), box.Start, box.Size)
	}
	return err
}

// stored reports whether a parameter is stored as floats in the same order, whole or by experts.
func (l *loader) stored(p *nn.Param) bool {
	names := aliases(l.config, p.Name)
	if parts := expertParts(l.config, p.Name); parts != nil {
		names = append(names, parts[0])
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, _, ok := l.src.Type(name)
		return ok
	})
}

func (l *loader) readBox(p *nn.Param, box mesh.Box, dst array.Array) error {
	for _, stored := range aliases(l.config, p.Name) {
		if _, shape, ok := l.src.Type(stored); ok {
			return readRows(l.src, stored, shape, box, dst, make([]int, len(box.Size)))
		}
	}
	return l.readExperts(expertParts(l.config, p.Name), p.Type.Shape, box, dst)
}

// readExperts reads a box of [experts, rows, columns] that is stored as one matrix after the other, each with
// the same number of an expert's rows.
func (l *loader) readExperts(parts []string, shape array.Shape, box mesh.Box, dst array.Array) error {
	each := len(parts) / shape[0]
	rows := shape[1] / each
	for e := range box.Size[0] {
		for k := range each {
			lo, hi := max(box.Start[1], k*rows), min(box.Start[1]+box.Size[1], (k+1)*rows)
			if lo >= hi {
				continue
			}
			name := parts[(box.Start[0]+e)*each+k]
			own := mesh.Box{Start: []int{lo - k*rows, box.Start[2]}, Size: []int{hi - lo, box.Size[2]}}
			page := dst.Rows(e, e+1).Reshape(dst.Shape()[1:]...)
			if err := readRows(l.src, name, array.Shape{rows, shape[2]}, own, page,
				[]int{lo - box.Start[1], 0}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readRows reads a box of a stored tensor into a part of dst, a few rows at a time.
func readRows(src *safetensors.Dir, name string, shape array.Shape, box mesh.Box, dst array.Array,
	to []int) error {
	if len(shape) == 0 {
		a, err := src.Read(name)
		if err == nil {
			dst.Set(0, a.At(0))
		}
		return err
	}
	dtype, _, _ := src.Type(name)
	step := max(1, boxBytes/max(1, shape[1:].Len()*dtype.Size()))
	for lo := 0; lo < box.Size[0]; lo += step {
		n := min(step, box.Size[0]-lo)
		rows, err := src.ReadRange(name, box.Start[0]+lo, box.Start[0]+lo+n)
		if err != nil {
			return err
		}
		from := append([]int{0}, box.Start[1:]...)
		at := append([]int{to[0] + lo}, to[1:]...)
		array.CopyBox(dst, at, converted(rows, dst.DType()), from, append([]int{n}, box.Size[1:]...))
	}
	return nil
}

// converted returns an array cast to another dtype.
func converted(a array.Array, dtype array.DType) array.Array {
	if a.DType() == dtype {
		return a
	}
	out := array.New(dtype, a.Shape()...)
	for i := range a.Len() {
		out.Set(i, a.At(i))
	}
	return out
}
