package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
)

// Weights is a Hugging Face directory, or a GGUF file, whose parameters are read one at a time, so that a
// program that keeps them in another form never holds all of them twice.
type Weights struct {
	// Model has shapes only.
	Model Model
	src   store
	path  string
}

// Open reads a model's configuration and checks names and shapes of the weights; Read reads them.
func Open(dir string) (*Weights, error) {
	config, src, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	w := &Weights{src: src, path: weightsFile(dir)}
	w.Model, err = New(config, nn.Config{Load: src.load})
	if err == nil {
		err = src.unexpected()
	}
	if err != nil {
		src.close()
		return nil, fmt.Errorf("models: %s: %w", w.path, err)
	}
	return w, nil
}

// Read returns a parameter in its stored dtype, dequantized if necessary.
func (w *Weights) Read(p *nn.Param) (array.Array, error) {
	a, err := w.src.read(p)
	if err != nil {
		return a, fmt.Errorf("models: %s: %w", w.path, err)
	}
	return a, nil
}

func (l *loader) read(p *nn.Param) (array.Array, error) {
	for _, stored := range aliases(l.config, p.Name) {
		if _, _, ok := l.src.Type(stored); ok {
			return l.src.Read(stored)
		}
	}
	if weight, tensors := l.integers(aliases(l.config, p.Name)); tensors != nil {
		return l.readPart(weight, p.Type.Shape)
	}
	if parts := expertParts(l.config, p.Name); parts != nil {
		return l.readParts(parts, p.Type)
	}
	return array.Array{}, fmt.Errorf("tensor %q: missing", p.Name)
}

// Close closes the files.
func (w *Weights) Close() error { return w.src.close() }
