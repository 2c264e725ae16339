package decode

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// loader loads a model's parameters for a backend.
type loader struct {
	Config
	from models.Model
	// sources holds the parameters of from by name, integers those of quantized weights that replace a matrix.
	sources  map[string]*nn.Param
	integers map[*nn.Param]func() (array.Array, error)
}

// shape returns the model that the backend runs: with 16-bit floats if the weights have them, and with
// quantized weights if these are requested or stored.
func (l *loader) shape() (models.Model, error) {
	dtype := array.F32
	if l.Weights == packed.BF16 || l.Weights != packed.F32 && l.from.Config().DType == array.BF16 {
		dtype = array.BF16
	}
	m, err := models.New(l.from.Config(), nn.Config{DType: dtype})
	if err != nil {
		return nil, err
	}
	l.sources, l.integers = map[string]*nn.Param{}, map[*nn.Param]func() (array.Array, error){}
	for _, p := range l.from.Params() {
		l.sources[p.Name] = p
	}
	if err := models.ReplaceWeights(m, l.replacement); err != nil {
		return nil, err
	}
	return m, l.checkIntegers(m)
}

// checkIntegers reports the matrices that stay floats although quantization was requested.
func (l *loader) checkIntegers(m models.Model) error {
	if l.Weights != packed.Int8 && l.Weights != packed.Int4 {
		return nil
	}
	replaced := map[string]bool{}
	for p := range l.integers {
		replaced[strings.TrimSuffix(p.Name, "_packed")] = true
	}
	all, err := models.Linears(m)
	for _, w := range all {
		if err == nil && !replaced[w.Name] {
			err = fmt.Errorf("%s %v cannot be %s on a backend: want a matrix [out, in] whose rows are whole groups "+
				"of %d, or weights of f32 or bf16", w.Name, w.Type.Shape, l.Weights, quantGroup)
		}
	}
	return err
}

// value returns a parameter's values in its own dtype.
func (l *loader) value(p *nn.Param) (array.Array, error) {
	if read := l.integers[p]; read != nil {
		return read()
	}
	a, err := l.read(p.Name)
	if err != nil || a.DType() == p.Type.DType {
		return a, err
	}
	return converted(a, p.Type.DType), nil
}

// converted converts floats to another dtype.
func converted(a array.Array, to array.DType) array.Array {
	out := array.New(to, a.Shape()...)
	x := floats(a)
	switch to {
	case array.F32:
		copy(array.Data[float32](out), x)
	case array.BF16:
		for i, dst := 0, array.Raw[uint16](out); i < len(x); i++ {
			dst[i] = kernel.F32ToBF16(x[i])
		}
	default:
		for i, v := range x {
			out.Set(i, float64(v))
		}
	}
	return out
}

func floats(a array.Array) []float32 {
	x := make([]float32, a.Len())
	if !packed.Floats(x, a, 0) {
		for i := range x {
			x[i] = float32(a.At(i))
		}
	}
	return x
}

// read returns the values of a parameter of the original model.
func (l *loader) read(name string) (array.Array, error) {
	p := l.sources[name]
	switch {
	case p == nil:
		return array.Array{}, fmt.Errorf("the model has none")
	case l.Read != nil:
		return l.Read(p)
	case p.Value == nil:
		return array.Array{}, fmt.Errorf("it has no value")
	}
	return cpu.Read(p.Value)
}

// replacement returns the quantized weight that replaces a matrix; nil if it is not replaced.
func (l *loader) replacement(w *nn.Param) (*nn.QuantizedWeight, error) {
	rows, cols := w.Type.Shape[0], w.Type.Shape[1]
	switch l.Weights {
	case packed.Int8, packed.Int4:
		bits := map[packed.Format]int{packed.Int8: 8, packed.Int4: 4}[l.Weights]
		if cols%quantGroup != 0 {
			return nil, nil
		}
		return l.put(w, models.IntegersOf(w, bits, quantGroup, false), func() (quant.Matrix, error) {
			a, err := l.read(w.Name)
			if err != nil {
				return quant.Matrix{}, err
			}
			return quant.Round(quant.Config{Bits: bits, Group: quantGroup}, floats(a), rows, cols), nil
		}), nil
	case packed.Auto:
	default:
		return nil, nil
	}
	if l.Grouped == nil || l.sources[w.Name] == nil {
		return nil, nil
	}
	stored := func() (quant.Matrix, error) {
		m, _, err := l.Grouped(l.sources[w.Name])
		return m, err
	}
	m, ok, err := l.Grouped(l.sources[w.Name])
	if err != nil || !ok || m.Order != nil || m.In%m.Group != 0 {
		return nil, err // weights with permuted columns, or a shorter last group, are loaded as floats
	}
	return l.put(w, models.IntegersOf(w, m.Bits, m.Group, m.Zeros != nil), stored), nil
}

// quantGroup is the number of weights that share a scale when Galley quantizes.
const quantGroup = 32

// put registers the sources of a quantized weight's tensors.
func (l *loader) put(w *nn.Param, q *nn.QuantizedWeight,
	from func() (quant.Matrix, error)) *nn.QuantizedWeight {
	part := func(p *nn.Param, f func(m quant.Matrix) array.Array) {
		l.integers[p] = func() (array.Array, error) {
			m, err := from()
			if err != nil {
				return array.Array{}, err
			}
			return f(m), nil
		}
	}
	part(q.Q, func(m quant.Matrix) array.Array {
		return array.FromSlice(models.PackedBytes(m.Values, m.Bits), q.Q.Type.Shape...)
	})
	q.Scale.Type.DType = w.Type.DType // the dtype of the activations, so that no step has to convert them
	part(q.Scale, func(m quant.Matrix) array.Array {
		return converted(array.FromSlice(m.Scales, q.Scale.Type.Shape...), w.Type.DType)
	})
	if q.Zero != nil {
		part(q.Zero, func(m quant.Matrix) array.Array { return array.FromSlice(m.Zeros, q.Zero.Type.Shape...) })
	}
	return q
}
