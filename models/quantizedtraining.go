package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// QuantizeLayers makes integers of 8 or 4 bits of the weights of a model's linear layers but heads and routers,
// with a scale for each group of neighbours in a row, so that an adapter can be trained beside them [Dettmers et
// al. 2023]. They take the weights' place among the parameters, and training leaves them as they are. It is
// called before Adapt.
func QuantizeLayers(m Model, bits, group int, in nn.Config) error {
	d, err := adaptableModel(m)
	if err != nil {
		return err
	}
	if bits != 4 && bits != 8 || group < 1 || group*bits%8 != 0 {
		return fmt.Errorf("models: integers of %d bits in groups of %d: want 4 or 8 bits, and whole bytes a group", bits,
			group)
	}
	for _, a := range d.linear {
		l, ok := a.(*nn.Linear)
		if !ok || (AdapterConfig{}).target(layerName(l)) == "" {
			continue
		}
		if cols := l.Weight.Type.Shape[1]; cols%group != 0 {
			return fmt.Errorf("models: %s: %d inputs are not a multiple of the group, %d", layerName(l), cols, group)
		}
		q, err := integersOf(l.Weight, bits, group, in.Scope)
		if err != nil {
			return err
		}
		d.setQuantized(l, q)
	}
	if d.quantized == nil {
		return fmt.Errorf("models: %s has no linear layers stored [out, in] that could be integers", d.config.Family)
	}
	return nil
}

// setQuantized puts integers in the place of a layer's weights.
func (m *decoder) setQuantized(l *nn.Linear, q *nn.QuantizedWeight) {
	i := slices.Index(m.params, l.Weight)
	m.params = slices.Replace(slices.Clone(m.params), i, i+1, q.Q, q.Scale)
	l.Weight.Value = nil
	l.SetQuantized(q)
	m.quantized = append(m.quantized, l)
}

// quantizedAs gives a model the integers that another of its shape has.
func (m *decoder) quantizedAs(from *decoder) error {
	for i, a := range from.linear {
		l, ok := a.(*nn.Linear)
		if !ok || l.Quantized() == nil {
			continue
		}
		q := *l.Quantized()
		for _, p := range []**nn.Param{&q.Q, &q.Scale} {
			value := (*p).Value
			*p = (*p).Like((*p).Name, (*p).Type)
			(*p).Fixed = true
			if value != nil {
				(*p).Value = value.Detach()
			}
		}
		m.setQuantized(m.linear[i].(*nn.Linear), &q)
	}
	return nil
}

// integersOf returns the parameters that stand for a weight; without a scope they have only types.
func integersOf(w *nn.Param, bits, group int, s op.Scope) (*nn.QuantizedWeight, error) {
	rows, cols := w.Type.Shape[0], w.Type.Shape[1]
	stem := strings.TrimSuffix(w.Name, "weight")
	q := &nn.QuantizedWeight{Bits: bits, Group: group,
		Q:     w.Like(stem+"weight_packed", op.Type{DType: array.U8, Shape: array.Shape{rows, cols * bits / 8}}),
		Scale: w.Like(stem+"weight_scale", op.Type{DType: array.F32, Shape: array.Shape{rows, cols / group}})}
	q.Q.Fixed, q.Scale.Fixed = true, true
	if s == nil || w.Value == nil {
		return q, nil
	}
	host, ok := s.(Host)
	if !ok {
		return nil, fmt.Errorf("models: weights cannot be put into a %T: want an eager session", s)
	}
	value, err := cpu.Read(op.Cast(w.Value.Detach(), array.F32))
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", w.Name, err)
	}
	m := quant.Round(quant.Config{Bits: bits, Group: group}, array.Data[float32](value), rows, cols)
	q.Q.Value = host.Tensor(array.FromSlice(packedBytes(m.Values, bits), q.Q.Type.Shape...))
	q.Scale.Value = host.Tensor(array.FromSlice(m.Scales, q.Scale.Type.Shape...))
	return q, nil
}

// packedBytes returns values as op.QuantizedLinear has them.
func packedBytes(values []byte, bits int) []byte {
	if bits == 8 {
		return values
	}
	out := make([]byte, len(values)/2)
	for i := range out {
		out[i] = values[2*i] | values[2*i+1]<<4
	}
	return out
}
