// Package state writes the parameters of any model as safetensors and reads them back: names are compared,
// and every shape is checked before any parameter changes.
package state

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Config says how the parameters of a model are found in safetensors.
type Config struct {
	// Rename, if set, is the name of a parameter in the file.
	Rename func(param string) string
	// Partly lets parameters be missing there, which keep their values, and tensors that no parameter has.
	Partly bool
	// ShardBytes is how much one file of a directory holds at most; 0 means 5 GB.
	ShardBytes int64
}

// Report is what was left out by loading partly.
type Report struct {
	// Missing is the parameters that the file does not have, Unexpected its tensors that no parameter has.
	Missing, Unexpected []string
}

// Save writes the parameters of any model as safetensors: to a file, if path ends so, else to a
// directory with shards and an index as Hugging Face has them. Values that training has on other devices are
// fetched.
func Save(path string, params []*nn.Param, c Config) error {
	var tensors []safetensors.Named
	for _, p := range params {
		if p.Value == nil {
			return fmt.Errorf("save state: parameter %q has no value", p.Name)
		}
		a, err := runtime.Read(p.Value)
		if err != nil {
			return fmt.Errorf("save state: parameter %q: %w", p.Name, err)
		}
		tensors = append(tensors, safetensors.Named{Name: c.name(p), Array: a})
	}
	metadata := map[string]string{"format": "pt"}
	if filepath.Ext(path) == stateExt {
		return safetensors.Write(path, tensors, metadata)
	}
	limit := c.ShardBytes
	if limit == 0 {
		limit = 5_000_000_000
	}
	return safetensors.WriteDir(path, tensors, limit, metadata)
}

const stateExt = ".safetensors"

func (c Config) name(p *nn.Param) string {
	if c.Rename != nil {
		return c.Rename(p.Name)
	}
	return p.Name
}

// Load gives the parameters of any model the values of a safetensors file, or of a directory of such, cast to
// their dtype. A trainer of them continues from these values, whatever devices it trains on. Every shape is
// checked before any parameter changes. What the file lacks, or has besides, is an error unless c is Partly.
func Load(s models.Host, path string, params []*nn.Param, c Config) (Report, error) {
	src, err := openState(path)
	if err != nil {
		return Report{}, fmt.Errorf("load state: %w", err)
	}
	defer src.Close()
	report, err := c.match(src, params)
	if err != nil {
		return report, fmt.Errorf("load state: %s: %w", path, err)
	}
	values := make([]*op.Tensor, len(params))
	for i, p := range params {
		if slices.Contains(report.Missing, p.Name) {
			continue
		}
		a, err := src.Read(c.name(p))
		if err != nil {
			return report, fmt.Errorf("load state: %w", err)
		}
		values[i] = tensorOf(s, a, p)
		if err := values[i].Err(); err != nil {
			return report, fmt.Errorf("load state: %s: %w", p.Name, err)
		}
	}
	for i, v := range values {
		if v != nil {
			params[i].Value = v
		}
	}
	return report, nil
}

func openState(path string) (safetensors.Source, error) {
	if filepath.Ext(path) == stateExt {
		return safetensors.Open(path)
	}
	return safetensors.OpenDir(path)
}

// tensorOf returns an array as a parameter's value.
func tensorOf(s models.Host, a array.Array, p *nn.Param) *op.Tensor {
	x := s.Tensor(a)
	if a.DType() != p.Type.DType {
		x = op.Cast(x, p.Type.DType).Detach()
	}
	return x.Track()
}

// match holds the parameters against what a file has.
func (c Config) match(src safetensors.Source, params []*nn.Param) (Report, error) {
	var r Report
	used := map[string]string{}
	for _, p := range params {
		name := c.name(p)
		if other, twice := used[name]; twice {
			return r, fmt.Errorf("parameters %q and %q are both called %q there", other, p.Name, name)
		}
		used[name] = p.Name
		dtype, shape, ok := src.Type(name)
		switch {
		case !ok:
			r.Missing = append(r.Missing, p.Name)
		case !shape.Equal(p.Type.Shape):
			return r, fmt.Errorf("tensor %q: got shape %v, want %v", name, shape, p.Type.Shape)
		case !dtype.IsFloat() && dtype != p.Type.DType:
			return r, fmt.Errorf("tensor %q: got %v, want %v", name, dtype, p.Type.DType)
		}
	}
	for _, name := range src.Names() {
		if _, ok := used[name]; !ok {
			r.Unexpected = append(r.Unexpected, name)
		}
	}
	switch {
	case c.Partly && len(r.Missing) == len(params):
		return r, fmt.Errorf("none of %d parameters is in it: they are called otherwise: see StateConfig.Rename",
			len(params))
	case !c.Partly && len(r.Missing) > 0:
		return r, fmt.Errorf("%s missing: set Partly to keep their values", tensorsOf(r.Missing))
	case !c.Partly && len(r.Unexpected) > 0:
		return r, fmt.Errorf("%s not of this model: set Partly to leave them out", tensorsOf(r.Unexpected))
	}
	return r, nil
}

// tensorsOf returns names in a sentence, the first few of them.
func tensorsOf(names []string) string {
	if n := len(names); n > 1 {
		return fmt.Sprintf("tensor %q and %d more are", names[0], n-1)
	}
	return fmt.Sprintf("tensor %q is", names[0])
}
