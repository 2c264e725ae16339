package safetensors

import (
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/galley-ml/galley/array"
)

// Source is a set of named tensors that are read when asked for: a File or a Dir. Its methods may be called
// concurrently, Close excepted.
type Source interface {
	// Names lists the tensors in the order of their bytes.
	Names() []string
	// Type returns a tensor's dtype and shape, and whether there is such a tensor. The dtype is array.Invalid
	// where the tensor's type is one that no array holds, such as F8_E4M3; reading that tensor is an error.
	Type(name string) (array.DType, array.Shape, bool)
	// Metadata returns a copy of the free text that came with the tensors.
	Metadata() map[string]string
	// Read reads a whole tensor.
	Read(name string) (array.Array, error)
	// ReadRange reads the part of a tensor with first indices lo to hi.
	ReadRange(name string, lo, hi int) (array.Array, error)
	// Close ends reading. Arrays already read stay valid.
	Close() error
}

// File is one open safetensors file.
type File struct {
	name   string
	r      io.ReaderAt
	closer io.Closer
	header header
	index  map[string]int // into header.entries
}

// Open opens the file at path and checks its header.
func Open(path string) (*File, error) {
	osFile, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := openFile(path, osFile)
	if err != nil {
		osFile.Close()
		return nil, err
	}
	f.closer = osFile
	return f, nil
}

func openFile(path string, osFile *os.File) (*File, error) {
	info, err := osFile.Stat()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("safetensors: %s: not a file: got %v", path, info.Mode().Type())
	}
	return NewFile(path, osFile, info.Size())
}

// NewFile reads a file of size bytes from r and checks its header; name stands for it in errors. Closing the
// File does not close r.
func NewFile(name string, r io.ReaderAt, size int64) (*File, error) {
	h, err := readHeader(r, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	f := &File{name: name, r: r, header: h, index: make(map[string]int, len(h.entries))}
	for i, e := range h.entries {
		f.index[e.name] = i
	}
	return f, nil
}

// Names lists the tensors in the order of their bytes.
func (f *File) Names() []string {
	names := make([]string, len(f.header.entries))
	for i, e := range f.header.entries {
		names[i] = e.name
	}
	return names
}

// Type returns a tensor's dtype and shape; see Source.
func (f *File) Type(name string) (array.DType, array.Shape, bool) {
	i, ok := f.index[name]
	if !ok {
		return array.Invalid, nil, false
	}
	e := f.header.entries[i]
	return e.format.dtype, e.shape.Clone(), true
}

// Metadata returns a copy of the header's __metadata__; nil if it has none.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.meta) }

// Read reads a whole tensor.
func (f *File) Read(name string) (array.Array, error) {
	e, err := f.entry(name)
	if err != nil {
		return array.Array{}, err
	}
	return f.read(e, e.shape, e.begin)
}

// ReadRange reads the rows of a tensor from lo up to hi.
func (f *File) ReadRange(name string, lo, hi int) (array.Array, error) {
	e, err := f.entry(name)
	if err != nil {
		return array.Array{}, err
	}
	if len(e.shape) == 0 {
		return array.Array{}, fmt.Errorf("safetensors: %s: tensor %q: rows of a scalar", f.name, name)
	}
	if lo < 0 || hi < lo || hi > e.shape[0] {
		return array.Array{}, fmt.Errorf("safetensors: %s: tensor %q: rows out of range: got %d to %d, want "+
			"within %d",
			f.name, name, lo, hi, e.shape[0])
	}
	row := e.shape[1:].Len() * e.format.dtype.Size()
	shape := e.shape.Clone()
	shape[0] = hi - lo
	return f.read(e, shape, e.begin+int64(lo)*int64(row))
}

// entry finds a tensor that arrays can hold.
func (f *File) entry(name string) (entry, error) {
	i, ok := f.index[name]
	if !ok {
		return entry{}, fmt.Errorf("safetensors: %s: no tensor %q among %d", f.name, name, len(f.index))
	}
	e := f.header.entries[i]
	if e.format.dtype == array.Invalid {
		return entry{}, fmt.Errorf("safetensors: %s: tensor %q: dtype %s is not supported", f.name, name,
			e.format.name)
	}
	return e, nil
}

func (f *File) read(e entry, shape array.Shape, begin int64) (array.Array, error) {
	a := array.New(e.format.dtype, shape.Clone()...)
	if err := readFull(f.r, a.Bytes(), f.header.data+begin); err != nil {
		return array.Array{}, fmt.Errorf("safetensors: %s: tensor %q: %w", f.name, e.name, err)
	}
	if a.DType() == array.Bool {
		// Any other byte in a Go bool would be neither true nor false.
		for i, b := range a.Bytes() {
			if b > 1 {
				return array.Array{}, fmt.Errorf("safetensors: %s: tensor %q: element %d: got %d, want 0 or 1",
					f.name, e.name, i, b)
			}
		}
	}
	return a, nil
}

// Close closes the file, if Open opened it.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
