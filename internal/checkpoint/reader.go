package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// Reader is an open checkpoint. Its methods are safe for concurrent use, except Close. A Keeper that removes
// the checkpoint meanwhile does not affect it.
type Reader struct {
	path     string
	manifest *manifest
	skipped  []*CorruptError
	files    []*source
	byFile   map[string]*source
	byName   map[string]int // into manifest.Tensors
}

// source is one data file.
type source struct {
	path   string // the checkpoint's
	entry  fileEntry
	file   *os.File
	data   *safetensors.File
	verify func() error // reads the file the first time, and caches the result
}

func newReader(path string, m *manifest) *Reader {
	r := &Reader{path: path, manifest: m, byFile: map[string]*source{}, byName: map[string]int{}}
	for i, t := range m.Tensors {
		r.byName[t.Name] = i
	}
	return r
}

// openFiles opens the data files and compares their headers with the manifest.
func (r *Reader) openFiles() error {
	for _, e := range r.manifest.Files {
		s := &source{path: r.path, entry: e}
		s.verify = sync.OnceValue(s.compare)
		r.files = append(r.files, s)
		r.byFile[e.Name] = s
		if err := s.open(); err != nil {
			return s.corrupt(err)
		}
	}
	for _, t := range r.manifest.Tensors {
		for _, p := range t.Parts {
			s := r.byFile[p.File]
			d, shape, ok := s.data.Type(p.Key)
			if !ok {
				return s.corrupt(fmt.Errorf("tensor %q: missing", p.Key))
			}
			if d != t.DType || !shape.Equal(p.Size) {
				return s.corrupt(fmt.Errorf("tensor %q: got %v%v, want %v%v", p.Key, d, shape, t.DType,
					array.Shape(p.Size)))
			}
		}
	}
	return nil
}

func (s *source) open() error {
	path := filepath.Join(s.path, s.entry.Name)
	// Opening anything but a file, such as a pipe, might never return.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("missing: %w", fs.ErrNotExist)
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() != s.entry.Bytes:
		return fmt.Errorf("got %d bytes, want %d", info.Size(), s.entry.Bytes)
	}
	if s.file, err = os.Open(path); err != nil {
		return err
	}
	s.data, err = safetensors.NewFile(s.entry.Name, s.file, s.entry.Bytes)
	return err
}

func (s *source) corrupt(err error) error { return badFile(s.path, s.entry.Name, err) }

// compare reads the whole file for its checksum.
func (s *source) compare() error {
	got, err := checksumOf(io.NewSectionReader(s.file, 0, s.entry.Bytes))
	if err != nil {
		return s.corrupt(err)
	}
	if got != s.entry.Checksum {
		return s.corrupt(fmt.Errorf("checksum: got %s, want %s", got, s.entry.Checksum))
	}
	return nil
}

// verifyAll verifies the files, two at a time.
func (r *Reader) verifyAll() error {
	errs := make([]error, len(r.files))
	var wg sync.WaitGroup
	for half := range 2 {
		wg.Go(func() {
			for i := half; i < len(r.files); i += 2 {
				if errs[i] = r.files[i].verify(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return firstError(errs)
}

// String describes the checkpoint in a line: step-00000012: 5 tensors, 1016 bytes of devices [0 1].
func (r *Reader) String() string {
	var bytes int
	var devices []int
	for _, t := range r.manifest.Tensors {
		bytes += t.typ().Bytes()
	}
	for _, f := range r.manifest.Files {
		devices = append(devices, f.Device)
	}
	return fmt.Sprintf("%s: %d tensors, %d bytes of devices %v", filepath.Base(r.path), len(r.manifest.Tensors),
		bytes, devices)
}

// Path returns the checkpoint's directory.
func (r *Reader) Path() string { return r.path }

// Meta returns the state beside the tensors.
func (r *Reader) Meta() Meta { return r.manifest.meta() }

// Skipped returns the newer checkpoints that are bad, newest first, each with its path and the reason.
func (r *Reader) Skipped() []*CorruptError { return slices.Clone(r.skipped) }

// Tensors returns the logical tensors in the order in which they were saved, with their stored boxes and the
// devices that wrote them, without data.
func (r *Reader) Tensors() []Tensor {
	list := make([]Tensor, len(r.manifest.Tensors))
	for i, e := range r.manifest.Tensors {
		list[i] = Tensor{Name: e.Name, Type: e.typ()}
		for _, p := range e.Parts {
			box := mesh.Box{Start: slices.Clone(p.Start), Size: slices.Clone(p.Size)}
			list[i].Parts = append(list[i].Parts, Part{Device: r.byFile[p.File].entry.Device, Box: box})
		}
	}
	return list
}

// Type returns a tensor's type, and whether there is such a tensor.
func (r *Reader) Type(name string) (ir.Type, bool) {
	i, ok := r.byName[name]
	if !ok {
		return ir.Type{}, false
	}
	return r.manifest.Tensors[i].typ(), true
}

func (t tensorEntry) typ() ir.Type { return ir.Type{DType: t.DType, Shape: t.Shape.Clone()} }

// Close closes the files. Arrays already read stay valid.
func (r *Reader) Close() error {
	var errs []error
	for _, s := range r.files {
		if s.file != nil {
			errs = append(errs, s.file.Close())
		}
	}
	return errors.Join(errs...)
}
