package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// AWQ is how activation-aware quantization changes a model before it is rounded: columns of matrices are
// multiplied by what their inputs are divided by, in the norm or the matrix that makes them, so that the
// model computes the same and rounding errs less where inputs are large. [Lin et al. 2023]
type AWQ struct {
	read func(p *nn.Param) (array.Array, error)
	// squares is the mean of squares of a matrix's inputs; nil where they were never seen.
	squares func(p *nn.Param, expert int) []float64
	config  quant.Config
	// columns multiply those of a matrix, rows divide those of a matrix or the elements of a vector; shifts are
	// what norms add to their weights.
	columns, rows map[*nn.Param][]float32
	shifts        map[*nn.Param]float32
}

// NewAWQ chooses the scales of a model whose values read gives.
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
		shared := l.Parallel && l.MLPNorm == nil // what its norm makes is of both parts
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

// after chooses the scales of layers whose inputs a norm makes.
func (a *AWQ) after(n Norm, layers ...*nn.Linear) error {
	switch n := n.(type) {
	case *nn.RMSNorm:
		if n != nil {
			a.shifts[n.Weight] = float32(n.Offset)
			return a.choose([]*nn.Param{n.Weight}, layers...)
		}
	case *nn.LayerNorm:
		if n.Weight == nil { // nothing to divide
			return nil
		}
		return a.choose([]*nn.Param{n.Weight, n.Bias}, layers...)
	}
	return nil
}

// choose finds the scales of layers that share inputs, which are made by producers: those are divided.
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

// Read returns a parameter's values; norms and biases whose outputs are scaled are changed, matrices are when
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

// Round is QuantizeConfig.Round.
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
