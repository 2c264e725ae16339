package safetensors

import (
	"fmt"
	"os"
)

// stream is files whose tensors come one after the other.
type stream struct {
	files   []pending
	handles []*os.File
	places  map[string]place
}

// place is where a tensor of a stream goes.
type place struct {
	Typed
	file   *os.File
	path   string
	offset int64
}

// open makes a file and writes its header.
func (s *stream) open(path string, tensors []Typed, metadata map[string]string) error {
	tensors = laidOut(tensors, func(t Typed) Typed { return t })
	text, err := encodeHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	p, f, err := create(path)
	if err != nil {
		return err
	}
	s.files, s.handles = append(s.files, p), append(s.handles, f)
	at := int64(len(text))
	for _, t := range tensors {
		s.places[t.Name] = place{Typed: t, file: f, path: path, offset: at}
		at += int64(t.size())
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// put writes a tensor to its place.
func (s *stream) put(t Named) error {
	p, ok := s.places[t.Name]
	if !ok || t.Array.DType() != p.DType || !t.Array.Shape().Equal(p.Shape) {
		return fmt.Errorf("tensor %q: got %v %v, want one that was announced, once", t.Name, t.Array.DType(),
			t.Array.Shape())
	}
	delete(s.places, t.Name)
	if _, err := p.file.WriteAt(t.Array.Bytes(), p.offset); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// close brings the files to disk.
func (s *stream) close() ([]pending, error) {
	for name := range s.places {
		return nil, s.drop(fmt.Errorf("tensor %q was announced and did not come", name))
	}
	for i, f := range s.handles {
		if err := f.Sync(); err != nil {
			return nil, s.drop(fmt.Errorf("%s: %w", s.files[i].path, err))
		}
	}
	for i, f := range s.handles {
		if err := f.Close(); err != nil {
			return nil, s.drop(fmt.Errorf("%s: %w", s.files[i].path, err))
		}
	}
	return s.files, nil
}

// drop removes the files for an error.
func (s *stream) drop(err error) error {
	for _, f := range s.handles {
		f.Close()
	}
	discard(s.files)
	return err
}
