package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// AWQ scales a model for activation-aware quantization: columns of matrices are multiplied, and their inputs
// are divided in the norm or matrix that produces them, by the same scales. The model computes the same, but
// rounding errors are smaller where inputs are large. [Lin et al. 2023]
type AWQ struct {
	read func(p *nn.Param) (array.Array, error)
	// squares returns the mean squares of a matrix's inputs; nil if none were observed.
	squares func(p *nn.Param, expert int) []float64
	config  quant.Config
	// columns holds factors for the columns of matrices, rows divisors for the rows of matrices or the elements
	// of vectors; shifts holds constants that norms add to their weights.
	columns, rows map[*nn.Param][]float32
	shifts        map[*nn.Param]float32
}

// NewAWQ chooses the scales of a model; read returns parameter values.
func NewAWQ(
	m Model,
	read func(p *nn.Param) (array.Array, error),
	squares func(p *nn.Param, expert int) []float64,
	c quant.Config,
) (*AWQ, error) {
	parts, err := PartsOf(m)
	if err != nil {
		return nil, err
	}
	a := &AWQ{read: read, squares: squares, config: c, columns: map[*nn.Param][]float32{},
		rows: map[*nn.Param][]float32{}, shifts: map[*nn.Param]float32{}}
	for i, l := range parts.Layers {
		shared := l.Parallel && l.MLPNorm == nil // its norm feeds attention and MLP
		if at, ok := l.Attention.(*nn.Attention); ok && err == nil && !shared {
			err = a.after(l.AttentionNorm, at.Q, at.K, at.V)
		}
		if mlp, ok := l.MLP.(*nn.GatedMLP); ok && err == nil {
			if err = a.after(l.MLPNorm, mlp.Gate, mlp.Up); err == nil {
				err = a.choose([]*nn.Param{mlp.Up.Weight, mlp.Up.Bias}, mlp.Down)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("models: awq: layer %d: %w", i, err)
		}
	}
	return a, nil
}

// after chooses the scales of layers that follow a norm.
func (a *AWQ) after(n Norm, layers ...*nn.Linear) error {
	switch n := n.(type) {
	case *nn.RMSNorm:
		if n != nil {
			a.shifts[n.Weight] = float32(n.Offset)
			return a.choose([]*nn.Param{n.Weight}, layers...)
		}
	case *nn.LayerNorm:
		if n.Weight == nil { // no weight to divide
			return nil
		}
		return a.choose([]*nn.Param{n.Weight, n.Bias}, layers...)
	}
	return nil
}

// choose determines the scales of layers that share inputs; the weights of producers, which compute these,
// are divided.
func (a *AWQ) choose(producers []*nn.Param, layers ...*nn.Linear) error {
	squares := a.squares(layers[0].Weight, 0)
	if squares == nil {
		return nil
	}
	var ws [][]float32
	for _, l := range layers {
		w, err := a.floats(l.Weight)
		if err != nil {
			return err
		}
		ws = append(ws, w)
	}
	s := quant.Saliences(a.config, ws, len(squares), squares)
	for _, l := range layers {
		a.columns[l.Weight] = s
	}
	for _, p := range producers {
		if p != nil {
			a.rows[p] = s
		}
	}
	return nil
}

func (a *AWQ) floats(p *nn.Param) ([]float32, error) {
	v, err := a.read(p)
	if err != nil {
		return nil, err
	}
	x := make([]float32, v.Len())
	if !packed.Floats(x, v, 0) {
		return nil, fmt.Errorf("parameter %q: got %v, want floats of 16 or 32 bits", p.Name, v.DType())
	}
	return x, nil
}

// Read returns a parameter's values with the scales applied to norms and biases. Matrices are scaled when
// they are rounded.
func (a *AWQ) Read(p *nn.Param) (array.Array, error) {
	v, err := a.read(p)
	s := a.rows[p]
	if err != nil || s == nil || len(p.Type.Shape) != 1 {
		return v, err
	}
	x, err := a.floats(p)
	if err != nil {
		return v, err
	}
	shift := a.shifts[p]
	for i := range x {
		x[i] = (x[i]+shift)/s[i] - shift
	}
	out := array.New(v.DType(), v.Shape()...)
	switch v.DType() {
	case array.BF16:
		kernel.F32sToBF16(array.Raw[uint16](out), x)
	case array.F16:
		kernel.F32sToF16(array.Raw[uint16](out), x)
	default:
		copy(array.Data[float32](out), x)
	}
	return out, nil
}

// Round implements QuantizeConfig.Round.
func (a *AWQ) Round(p *nn.Param, expert int, w []float32, out, in int, c quant.Config) (quant.Matrix, error) {
	squares := a.squares(p, expert)
	if squares == nil {
		return quant.Round(c, w, out, in), nil
	}
	columns, rows := a.columns[p], a.rows[p]
	weights := append([]float64(nil), squares...)
	for i, s := range columns {
		weights[i] /= float64(s) * float64(s)
	}
	for j := range out {
		row := w[j*in : (j+1)*in]
		for i := range row {
			if columns != nil {
				row[i] *= columns[i]
			}
			if rows != nil {
				row[i] /= rows[j]
			}
		}
	}
	return quant.RoundWeighted(c, w, out, in, weights), nil
}
