package gguf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
)

// Tensor is where a tensor is and what it is.
type Tensor struct {
	Name  string
	Shape array.Shape
	Kind  Kind
	at    int64
	bytes int
}

// File is an open file.
type File struct {
	// Meta is the metadata: uint64, int64, float64, bool, string and []any of them.
	Meta map[string]any

	r     io.ReaderAt
	close func() error
	names []string
	where map[string]*Tensor
}

// Open opens a file and reads what is before its tensors.
func Open(path string) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	info, err := r.Stat()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := Parse(r, info.Size())
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.close = r.Close
	return f, nil
}

// Parse reads what is before the tensors of so many bytes.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, close: func() error { return nil }}
	c := &cursor{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), left: size}
	if err := f.header(c); err != nil {
		return nil, err
	}
	unit := int64(alignment)
	if a, ok := f.Meta["general.alignment"]; ok {
		n, _ := a.(uint64)
		if n == 0 || n > 1<<20 || n&(n-1) != 0 {
			return nil, fmt.Errorf("general.alignment: got %v, want a power of two", a)
		}
		unit = int64(n)
	}
	begin := (c.at + unit - 1) / unit * unit
	for _, name := range f.names {
		if err := f.where[name].place(begin, size); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// place checks where a tensor is.
func (t *Tensor) place(begin, size int64) error {
	elems := 1
	for _, d := range t.Shape {
		if d < 1 || elems > math.MaxInt32*64/d {
			return fmt.Errorf("tensor %q: shape %v", t.Name, t.Shape)
		}
		elems *= d
	}
	last := 1
	if len(t.Shape) > 0 {
		last = t.Shape[len(t.Shape)-1]
	}
	if _, ok := kinds[t.Kind]; !ok {
		t.bytes = -1 // said when it is read
		return nil
	}
	row, ok := t.Kind.Bytes(last)
	if !ok {
		return fmt.Errorf("tensor %q: rows of %d elements are no whole blocks of %v", t.Name, last, t.Kind)
	}
	t.bytes = elems / last * row
	if t.at < 0 || t.at > size || begin+t.at+int64(t.bytes) > size {
		return fmt.Errorf("tensor %q: %w", t.Name, errCut)
	}
	t.at += begin
	return nil
}

// Names lists the tensors in the file's order.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns one of the tensors.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.where[name]
	if !ok {
		return Tensor{}, false
	}
	return *t, true
}

// Close closes the file.
func (f *File) Close() error { return f.close() }

// find returns a tensor of a kind that is known.
func (f *File) find(name string) (*Tensor, error) {
	t, ok := f.where[name]
	if !ok {
		return nil, fmt.Errorf("tensor %q: missing", name)
	}
	if t.bytes < 0 {
		return nil, fmt.Errorf("tensor %q: %v is not read: want F32, F16, BF16, or Q2 to Q8 of the kinds "+
			"_0, _1 and _K", name, t.Kind)
	}
	return t, nil
}

// fill reads the bytes of a tensor into b, which is as long as they are.
func (f *File) fill(b []byte, t *Tensor) error {
	if _, err := f.r.ReadAt(b, t.at); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// Read reads a tensor: floats as they are, blocks as the float32 that they mean. Floats are read where they
// stay, without a copy in between.
func (f *File) Read(name string) (array.Array, error) {
	t, err := f.find(name)
	if err != nil {
		return array.Array{}, err
	}
	if d, ok := map[Kind]array.DType{F32: array.F32, F16: array.F16, BF16: array.BF16}[t.Kind]; ok {
		a := array.New(d, t.Shape...)
		return a, f.fill(a.Bytes(), t)
	}
	b := make([]byte, t.bytes)
	if err := f.fill(b, t); err != nil {
		return array.Array{}, err
	}
	a := array.New(array.F32, t.Shape...)
	t.Kind.decode(array.Data[float32](a), b)
	return a, nil
}

// Grouped reads a matrix that is stored as integers with one scale for 32; ok is false for others. Of several
// matrices in one tensor it is all of them, one below the other.
func (f *File) Grouped(name string) (m quant.Matrix, ok bool, err error) {
	if t, has := f.where[name]; has && (len(t.Shape) < 2 || t.Kind != Q8_0 && t.Kind != Q4_0) {
		return m, false, nil
	}
	t, err := f.find(name)
	if err != nil {
		return m, false, err
	}
	b := make([]byte, t.bytes)
	if err := f.fill(b, t); err != nil {
		return m, false, err
	}
	in := t.Shape[len(t.Shape)-1]
	return integers(t.Kind, b, t.Shape.Len()/in, in), true, nil
}
