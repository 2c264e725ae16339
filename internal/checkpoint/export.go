package checkpoint

import (
	"fmt"
	"iter"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// Wholes returns the tensors whose names begin with a prefix, in the order in which they were saved, each
// whole and named without the prefix. One is in memory at a time, so a model is exported without holding all
// of it. It ends at an error.
func (r *Reader) Wholes(prefix string) iter.Seq2[safetensors.Named, error] {
	return func(yield func(safetensors.Named, error) bool) {
		for _, t := range r.manifest.Tensors {
			name, ok := strings.CutPrefix(t.Name, prefix)
			if !ok {
				continue
			}
			a, err := r.ReadWhole(t.Name)
			if !yield(safetensors.Named{Name: name, Array: a}, err) || err != nil {
				return
			}
		}
	}
}

// Source returns the tensors whose names begin with a prefix, without it, as a safetensors source. Closing it
// closes nothing.
func (r *Reader) Source(prefix string) safetensors.Source { return exported{r, prefix} }

type exported struct {
	r      *Reader
	prefix string
}

func (e exported) Names() []string {
	var names []string
	for _, t := range e.r.manifest.Tensors {
		if name, ok := strings.CutPrefix(t.Name, e.prefix); ok {
			names = append(names, name)
		}
	}
	return names
}

func (e exported) Type(name string) (array.DType, array.Shape, bool) {
	t, ok := e.r.Type(e.prefix + name)
	return t.DType, t.Shape, ok
}

// Metadata returns the scalars.
func (e exported) Metadata() map[string]string {
	meta := map[string]string{}
	for _, s := range e.r.manifest.Scalars {
		meta[s.Name] = s.Value
	}
	return meta
}

func (e exported) Read(name string) (array.Array, error) { return e.r.ReadWhole(e.prefix + name) }

func (e exported) ReadRange(name string, lo, hi int) (array.Array, error) {
	t, ok := e.r.Type(e.prefix + name)
	if !ok {
		return array.Array{}, e.r.missing(e.prefix + name)
	}
	if len(t.Shape) == 0 || lo < 0 || hi < lo || hi > t.Shape[0] {
		return array.Array{}, fmt.Errorf("checkpoint: %s: tensor %q: rows out of range: got %d to %d of %v",
			e.r.path, e.prefix+name,
			lo, hi, t)
	}
	box := mesh.Box{Start: make([]int, len(t.Shape)), Size: t.Shape}
	box.Start[0], box.Size[0] = lo, hi-lo
	return e.r.Read(e.prefix+name, box)
}

func (e exported) Close() error { return nil }
