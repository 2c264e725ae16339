package models

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
)

// AdapterLayer is an adapter's update of one matrix: Scale·B·A.
type AdapterLayer struct {
	// Weight is the name of the parameter that is updated.
	Weight string
	// A is [rank, in], B [out, rank].
	A, B array.Array
	// Magnitude holds DoRA's magnitudes of rows; it is not valid if there are none.
	Magnitude array.Array
	Scale     float64
}

// ReadAdapter reads the adapter of a PEFT directory for a model without changing the model, for engines that
// serve several adapters at once.
func ReadAdapter(dir string, m Model) ([]AdapterLayer, error) {
	list, err := readAdapterLayers(dir, m)
	if err != nil {
		return nil, fmt.Errorf("models: adapter %s: %w", dir, err)
	}
	return list, nil
}

func readAdapterLayers(dir string, m Model) ([]AdapterLayer, error) {
	c, err := readAdapterConfig(filepath.Join(dir, adapterConfigName))
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(filepath.Join(dir, adapterWeightsName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if c.Targets, err = adapterTargets(m, f.Names()); err != nil {
		return nil, err
	}
	var list []AdapterLayer
	for _, l := range m.(*decoder).linear { // adapterTargets has checked it
		if name := layerName(l); c.target(name) != "" {
			x, err := readAdapterLayer(f, l, c, name)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
	}
	return list, nil
}

func readAdapterLayer(
	f *safetensors.File,
	l nn.Adaptable,
	c AdapterConfig,
	name string,
) (AdapterLayer, error) {
	shape := l.Matrix().Type.Shape
	out, in := shape[0], shape[1]
	if l.Transposed() {
		out, in = in, out
	}
	a := c.layer(name, nn.Config{})
	x := AdapterLayer{Weight: l.Matrix().Name, Scale: a.Scale}
	read := func(to *array.Array, part string, shape ...int) error {
		stored := storedAdapter(name + part)
		if _, _, ok := f.Type(stored); !ok && !strings.HasSuffix(stored, ".weight") {
			stored += ".weight" // of a magnitude, in newer files
		}
		dtype, got, ok := f.Type(stored)
		switch {
		case !ok:
			return fmt.Errorf("tensor %q: missing", stored)
		case !got.Equal(shape):
			return fmt.Errorf("tensor %q: got shape %v, want %v: the adapter is for another model", stored, got,
				array.Shape(shape))
		case !dtype.IsFloat():
			return fmt.Errorf("tensor %q: got %v, want floats", stored, dtype)
		}
		var err error
		*to, err = f.Read(stored)
		return err
	}
	err := read(&x.A, ".lora_A.weight", a.Rank, in)
	if err == nil {
		err = read(&x.B, ".lora_B.weight", out, a.Rank)
	}
	if err == nil && a.Magnitude {
		err = read(&x.Magnitude, ".lora_magnitude_vector.weight", out)
	}
	return x, err
}
