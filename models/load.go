package models

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Host is a scope that takes data from host memory: an eager session.
type Host interface {
	op.Scope
	Tensor(a array.Array) *op.Tensor
}

// Load reads a model from a Hugging Face directory, config.json and safetensors, in one file or in several,
// or from a GGUF file. Weights are cast to c.DType. Without c.Scope it reads and checks only the shapes.
func Load(dir string, c nn.Config) (Model, error) { return LoadAhead(dir, 0, c) }

// LoadAhead is like Load with the first ahead multi-token prediction layers, for training.
func LoadAhead(dir string, ahead int, c nn.Config) (Model, error) {
	config, src, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	defer src.close()
	config.Ahead = ahead
	if c.Scope != nil {
		host, ok := c.Scope.(Host)
		if !ok {
			return nil, fmt.Errorf("models: load %s: weights cannot be put into a %T: want an eager session", dir,
				c.Scope)
		}
		src.use(host)
	}
	c.Load = src.load
	m, err := New(config, c)
	if err == nil {
		err = src.unexpected()
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", weightsFile(dir), err)
	}
	return m, nil
}

// store is where parameters are read from.
type store interface {
	// use makes load put tensors into a scope; without it, load only checks.
	use(h Host)
	load(name string, t op.Type) (*op.Tensor, error)
	read(p *nn.Param) (array.Array, error)
	grouped(p *nn.Param) (m quant.Matrix, ok bool, err error)
	// unexpected returns an error if the store has more than was loaded.
	unexpected() error
	close() error
}

// openStore opens a directory or a file.
func openStore(path string) (Config, store, error) {
	if IsGGUF(path) {
		s, err := openGGUF(path)
		if err != nil {
			return Config{}, nil, err
		}
		return s.config, s, nil
	}
	config, err := ReadConfig(path)
	if err != nil {
		return config, nil, err
	}
	l, err := newLoader(path, config)
	return config, l, err
}

// weightsFile returns the file that errors about the weights name.
func weightsFile(dir string) string {
	if IsGGUF(dir) {
		return dir
	}
	single := filepath.Join(dir, "model.safetensors")
	if _, err := os.Stat(single); err == nil {
		return single
	}
	return single + ".index.json"
}

// loader finds parameters in a checkpoint.
type loader struct {
	src    *safetensors.Dir
	config Config
	layout *quant.Layout // of quantized weights; nil if there are none
	host   Host
	used   map[string]bool
}

func (l *loader) use(h Host)   { l.host = h }
func (l *loader) close() error { return l.src.Close() }

// load implements nn.Config.Load.
func (l *loader) load(name string, t op.Type) (*op.Tensor, error) {
	for _, stored := range aliases(l.config, name) {
		if _, _, ok := l.src.Type(stored); ok {
			return l.whole(stored, t)
		}
	}
	if weight, tensors := l.integers(aliases(l.config, name)); tensors != nil {
		return l.wholeIntegers(weight, tensors, t)
	}
	if parts := expertParts(l.config, name); parts != nil {
		return l.stack(parts, t)
	}
	return nil, fmt.Errorf("tensor %q: missing", name)
}

// check compares a stored tensor with the wanted shape.
func (l *loader) check(stored string, want array.Shape) error {
	l.used[stored] = true
	dtype, shape, ok := l.src.Type(stored)
	switch {
	case !ok:
		return fmt.Errorf("tensor %q: missing", stored)
	case !shape.Equal(want):
		return fmt.Errorf("tensor %q: got shape %v, want %v", stored, shape, want)
	case dtype == array.Invalid || !dtype.IsFloat():
		return fmt.Errorf("tensor %q: got %v, want floats of 16, 32 or 64 bits", stored, dtype)
	}
	return nil
}

func (l *loader) whole(stored string, t op.Type) (*op.Tensor, error) {
	if err := l.check(stored, t.Shape); err != nil || l.host == nil {
		return nil, err
	}
	a, err := l.src.Read(stored)
	if err != nil {
		return nil, err
	}
	return l.put(a, t), nil
}

// stack reads a parameter that is stored in parts.
func (l *loader) stack(parts []string, t op.Type) (*op.Tensor, error) {
	part := array.Shape{t.Shape[0] * t.Shape[1] / len(parts), t.Shape[2]}
	for _, name := range parts {
		if err := l.checkPart(name, part); err != nil {
			return nil, err
		}
	}
	if l.host == nil {
		return nil, nil
	}
	all, err := l.readParts(parts, t)
	if err != nil {
		return nil, err
	}
	return l.put(all, t), nil
}

// checkPart is like check for floats or quantized weights.
func (l *loader) checkPart(name string, want array.Shape) error {
	if weight, tensors := l.integers([]string{name}); tensors != nil {
		return l.checkIntegers(weight, tensors, want)
	}
	return l.check(name, want)
}

// readPart reads a matrix, dequantized if necessary.
func (l *loader) readPart(name string, shape array.Shape) (array.Array, error) {
	weight, tensors := l.integers([]string{name})
	if tensors == nil {
		return l.src.Read(name)
	}
	m, err := l.layout.Read(l.src, weight, shape[0], shape[1])
	if err != nil {
		return array.Array{}, err
	}
	return array.FromSlice(m.Floats(), shape...), nil
}

// readParts reads a parameter that is stored in parts, one matrix after the other.
func (l *loader) readParts(parts []string, t op.Type) (array.Array, error) {
	dtype, _, ok := l.src.Type(parts[0])
	if !ok {
		dtype = array.F32 // of quantized weights
	}
	all := array.New(dtype, t.Shape...)
	bytes, part := all.Bytes(), array.Shape{t.Shape[0] * t.Shape[1] / len(parts), t.Shape[2]}
	for _, name := range parts {
		a, err := l.readPart(name, part)
		if err != nil {
			return array.Array{}, err
		}
		if a.DType() != dtype {
			return array.Array{}, fmt.Errorf("tensor %q: got %v, want %v as in %q", name, a.DType(), dtype, parts[0])
		}
		bytes = bytes[copy(bytes, a.Bytes()):]
	}
	return all, nil
}

func (l *loader) put(a array.Array, t op.Type) *op.Tensor { return putInto(l.host, a, t) }

func putInto(h Host, a array.Array, t op.Type) *op.Tensor {
	x := h.Tensor(a)
	if a.DType() != t.DType {
		x = op.Cast(x, t.DType)
	}
	return x
}

// unexpected returns an error if the checkpoint holds tensors that the model does not use, which would mean
// that it is another model.
func (l *loader) unexpected() error {
	var extra []string
	for _, name := range l.src.Names() {
		if !l.used[name] && !isBuffer(l.config, name) {
			extra = append(extra, name)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	slices.Sort(extra)
	more := ""
	if n := len(extra); n > 3 {
		more = fmt.Sprintf(" and %d more", n-3)
		extra = extra[:3]
	}
	return fmt.Errorf("tensor %q%s: not part of a %s model of this configuration", strings.Join(extra, `", "`),
		more, l.config.Family)
}
