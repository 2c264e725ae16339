package models

import (
	"fmt"
	"path/filepath"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// quantization reads how a checkpoint stores quantized weights; nil if it has none.
func (r *reader) quantization() *quant.Layout {
	text := r.take("quantization_config")
	if text == nil {
		return nil
	}
	l, err := quant.ParseLayout(text)
	if err != nil {
		r.fail("quantization_config", "%v", err)
	}
	return &l
}

// IsQuantized reports whether the config.json of a directory declares quantized weights.
func IsQuantized(dir string) bool {
	text, err := strict.ReadFile(filepath.Join(dir, configName), strict.Config)
	if err != nil {
		return false
	}
	r, err := newReader(text)
	return err == nil && r.has("quantization_config")
}

// newLoader opens a directory's weights.
func newLoader(dir string, config Config) (*loader, error) {
	l := &loader{config: config, used: map[string]bool{}}
	text, err := strict.ReadFile(filepath.Join(dir, configName), strict.Config)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	r, err := newReader(text)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", filepath.Join(dir, configName), err)
	}
	if l.layout = r.quantization(); r.err != nil {
		return nil, fmt.Errorf("models: %s: %w", filepath.Join(dir, configName), r.err)
	}
	if l.src, err = safetensors.OpenDir(dir); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return l, nil
}

// integers returns the tensors of a quantized weight, under any of its names.
func (l *loader) integers(names []string) (weight string, tensors []string) {
	if l.layout == nil {
		return "", nil
	}
	for _, name := range names {
		if tensors := l.layout.Names(l.src, name); tensors != nil {
			return name, tensors
		}
	}
	return "", nil
}

// checkIntegers compares the tensors of a quantized weight with the wanted shape.
func (l *loader) checkIntegers(weight string, tensors []string, want array.Shape) error {
	for _, name := range tensors {
		l.used[name] = true
	}
	if len(want) != 2 {
		return fmt.Errorf("tensor %q: got integers, want a parameter of shape %v", weight, want)
	}
	return l.layout.Check(l.src, weight, want[0], want[1])
}

// wholeIntegers is like whole for a quantized weight.
func (l *loader) wholeIntegers(weight string, tensors []string, t op.Type) (*op.Tensor, error) {
	if err := l.checkIntegers(weight, tensors, t.Shape); err != nil || l.host == nil {
		return nil, err
	}
	m, err := l.layout.Read(l.src, weight, t.Shape[0], t.Shape[1])
	if err != nil {
		return nil, err
	}
	return l.put(array.FromSlice(m.Floats(), t.Shape...), t), nil
}

// grouped returns a parameter as the stored integers; ok is false if it is stored as floats.
func (l *loader) grouped(p *nn.Param) (m quant.Matrix, ok bool, err error) {
	if l.layout == nil {
		return m, false, nil
	}
	shape := p.Type.Shape
	if weight, tensors := l.integers(aliases(l.config, p.Name)); tensors != nil {
		m, err = l.layout.Read(l.src, weight, shape[0], shape[1])
		return m, err == nil, err
	}
	parts := expertParts(l.config, p.Name)
	if parts == nil {
		return m, false, nil
	}
	var all []quant.Matrix
	for _, part := range parts {
		if _, tensors := l.integers([]string{part}); tensors == nil {
			return m, false, nil
		}
		one, err := l.layout.Read(l.src, part, shape[0]*shape[1]/len(parts), shape[2])
		if err != nil {
			return m, false, err
		}
		all = append(all, one)
	}
	m, err = quant.Stacked(all)
	return m, err == nil, err
}

// Grouped returns a parameter as the stored integers, one matrix below the other; ok is false if it is stored
// as floats.
func (w *Weights) Grouped(p *nn.Param) (m quant.Matrix, ok bool, err error) {
	if m, ok, err = w.src.grouped(p); err != nil {
		err = fmt.Errorf("models: %s: %w", w.path, err)
	}
	return m, ok, err
}
