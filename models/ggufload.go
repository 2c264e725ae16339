package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/gguf"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// ggufStore reads a model's parameters from a GGUF file.
type ggufStore struct {
	*gguf.File
	config Config
	host   Host
	used   map[string]bool
}

func openGGUF(path string) (*ggufStore, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	s := &ggufStore{File: f, used: map[string]bool{}}
	if s.config, err = ggufConfig(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("models: %s: %w", path, err)
	}
	return s, nil
}

func (s *ggufStore) close() error { return s.Close() }
func (s *ggufStore) use(h Host)   { s.host = h }

// find checks a parameter's tensors and marks them as used.
func (s *ggufStore) find(name string, want array.Shape) ([]string, error) {
	all := ggufNames(s.config.Family, name)
	if all == nil {
		return nil, fmt.Errorf("parameter %q has no name in llama.cpp's files", name)
	}
	for i, want := range fileShapes(s.config, name, want) {
		stored := all[i]
		t, ok := s.Tensor(stored)
		if !ok {
			return nil, fmt.Errorf("tensor %q of %q: missing", stored, name)
		}
		s.used[stored] = true
		vector := len(want) == 2 && want[0] == 1 && len(t.Shape) == 1 && t.Shape[0] == want[1]
		if !t.Shape.Equal(want) && !vector {
			return nil, fmt.Errorf("tensor %q: got shape %v, want %v", stored, t.Shape, want)
		}
	}
	return all, nil
}

func (s *ggufStore) load(name string, t op.Type) (*op.Tensor, error) {
	if _, err := s.find(name, t.Shape); err != nil || s.host == nil {
		return nil, err
	}
	a, err := s.read(&nn.Param{Name: name, Type: t})
	if err != nil {
		return nil, err
	}
	return putInto(s.host, a, t), nil
}

func (s *ggufStore) read(p *nn.Param) (array.Array, error) {
	stored, err := s.find(p.Name, p.Type.Shape)
	if err != nil {
		return array.Array{}, err
	}
	var parts []array.Array
	for _, name := range stored {
		a, err := s.Read(name)
		if err != nil {
			return array.Array{}, err
		}
		parts = append(parts, a)
	}
	return fromFile(s.config, p.Name, parts).Reshape(p.Type.Shape...), nil
}

func (s *ggufStore) grouped(p *nn.Param) (m quant.Matrix, ok bool, err error) {
	stored, err := s.find(p.Name, p.Type.Shape)
	if err != nil || !calibrated(s.config, p.Name) {
		return m, false, err
	}
	var parts []quant.Matrix
	for _, name := range stored {
		m, ok, err := s.Grouped(name)
		if !ok || err != nil {
			return m, false, err
		}
		parts = append(parts, m)
	}
	if m, err = joinedMatrices(parts, p.Type.Shape[0]); err != nil {
		return m, false, err
	}
	if order := rowOrder(s.config, p.Name); order != nil {
		m = reorderedBack(m, order)
	}
	return m, true, nil
}

// unexpected returns an error if the file holds tensors that the model does not use.
func (s *ggufStore) unexpected() error {
	var extra []string
	for _, name := range s.Names() {
		if !s.used[name] && (name != ggufRope || s.config.Rope.Type != "longrope") {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	slices.Sort(extra)
	return fmt.Errorf("tensor %q: not part of a %s model that is read",
		strings.Join(extra[:min(3, len(extra))], `", "`), s.config.Family)
}
