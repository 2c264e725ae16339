package checkpoint

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// Read reads a box of a tensor, however the tensor was split when it was saved.
func (r *Reader) Read(name string, box mesh.Box) (array.Array, error) {
	t, err := r.tensor(name, box)
	if err != nil {
		return array.Array{}, err
	}
	a := array.New(t.DType, array.Shape(box.Size).Clone()...)
	return a, r.ReadInto(a, name, box)
}

// ReadWhole reads all of a tensor.
func (r *Reader) ReadWhole(name string) (array.Array, error) {
	t, ok := r.Type(name)
	if !ok {
		return array.Array{}, r.missing(name)
	}
	return r.Read(name, boxOf(t.Shape))
}

// ReadInto is like Read into existing memory; dst has the tensor's dtype and the size of the box.
func (r *Reader) ReadInto(dst array.Array, name string, box mesh.Box) error {
	t, err := r.tensor(name, box)
	if err != nil {
		return err
	}
	if dst.DType() != t.DType || !dst.Shape().Equal(box.Size) {
		return fmt.Errorf("checkpoint: %s: tensor %q: read %v into %v%v, want %v%v", r.path, name, box,
			dst.DType(), dst.Shape(), t.DType, array.Shape(box.Size))
	}
	if box.Empty() {
		return nil
	}
	for _, p := range t.Parts {
		if err := r.readPart(dst, box, p); err != nil {
			return err
		}
	}
	return checkBools(dst, r.path, name)
}

// ReadLayout reads the shard of each device of a layout, by device; no two share memory. Every box is read
// once.
func (r *Reader) ReadLayout(name string, l *mesh.Layout) (map[int]array.Array, error) {
	t, ok := r.Type(name)
	if !ok {
		return nil, r.missing(name)
	}
	if len(l.Spec().Partial) > 0 || !t.Shape.Equal(l.Shape()) {
		return nil, fmt.Errorf("checkpoint: %s: tensor %q: read as %v of shape %v, want shape %v and no partial "+
			"axes", r.path, name,
			l.Spec(), array.Shape(l.Shape()), t.Shape)
	}
	parts, first := map[int]array.Array{}, map[string]array.Array{}
	for device, box := range l.Boxes() {
		key := box.String()
		if twin, ok := first[key]; ok {
			parts[device] = twin.Clone()
			continue
		}
		a, err := r.Read(name, box)
		if err != nil {
			return nil, err
		}
		parts[device], first[key] = a, a
	}
	return parts, nil
}

// tensor finds a tensor and checks that a box is in it.
func (r *Reader) tensor(name string, box mesh.Box) (*tensorEntry, error) {
	i, ok := r.byName[name]
	if !ok {
		return nil, r.missing(name)
	}
	t := &r.manifest.Tensors[i]
	if err := checkBox(t.Shape, box); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: tensor %q: %w", r.path, name, err)
	}
	return t, nil
}

func (r *Reader) missing(name string) error {
	return fmt.Errorf("checkpoint: %s: no tensor %q among %d", r.path, name, len(r.byName))
}

// readPart copies the intersection of a part with a box, which dst holds.
func (r *Reader) readPart(dst array.Array, box mesh.Box, p partEntry) error {
	common, ok := box.Intersect(p.box())
	if !ok {
		return nil
	}
	s := r.byFile[p.File]
	if err := s.verify(); err != nil {
		return err
	}
	section, err := s.data.Section(p.Key)
	if err != nil {
		return s.corrupt(err)
	}
	w := window{r: section, size: section.Size()}
	err = eachRun(common.Within(p.box()), p.Size, common.Within(box), box.Size, func(from, to, n int) error {
		size := dst.DType().Size()
		return w.read(dst.Bytes()[to*size:(to+n)*size], int64(from)*int64(size))
	})
	if err != nil {
		return s.corrupt(err)
	}
	return nil
}

// checkBools refuses bytes that are not valid Go bools.
func checkBools(a array.Array, path, name string) error {
	if a.DType() != array.Bool {
		return nil
	}
	for i, b := range a.Bytes() {
		if b > 1 {
			return &CorruptError{path, "", fmt.Errorf("tensor %q: element %d: got %d, want 0 or 1", name, i, b)}
		}
	}
	return nil
}
