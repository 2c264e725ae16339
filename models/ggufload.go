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

// ggufStore is a file of llama.cpp's as the place of a model's parameters.
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

// find checks a parameter's tensor and marks it as used.
func (s *ggufStore) find(name string, want array.Shape) (string, error) {
	stored := ggufName(s.config.Family, name)
	t, ok := s.Tensor(stored)
	if !ok {
		return "", fmt.Errorf("tensor %q of %q: missing", stored, name)
	}
	s.used[stored] = true
	if !t.Shape.Equal(want) {
		return "", fmt.Errorf("tensor %q: got shape %v, want %v", stored, t.Shape, want)
	}
	return stored, nil
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
	a, err := s.Read(stored)
	if err == nil && turns(s.config, p.Name) {
		a = turned(a, s.config.HeadDim, true)
	}
	return a, err
}

func (s *ggufStore) grouped(p *nn.Param) (m quant.Matrix, ok bool, err error) {
	stored, err := s.find(p.Name, p.Type.Shape)
	if err != nil {
		return m, false, err
	}
	m, ok, err = s.Grouped(stored)
	if ok && err == nil && turns(s.config, p.Name) {
		m = turnedBack(m, s.config.HeadDim)
	}
	return m, ok, err
}

// unexpected returns an error if the file holds tensors that the model has no use for.
func (s *ggufStore) unexpected() error {
	var extra []string
	for _, name := range s.Names() {
		if !s.used[name] {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	slices.Sort(extra)
	return fmt.Errorf("tensor %q: not part of a %s model that is read: positions stretched by rope_freqs and "+
		"mixtures of experts are not", strings.Join(extra[:min(3, len(extra))], `", "`), s.config.Family)
}
