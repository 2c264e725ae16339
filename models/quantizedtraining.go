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

// QuantizeLayers quantizes the weights of a model's linear layers, except heads and routers, to 8 or 4 bits,
// with a scale for each group of adjacent elements in a row, so that an adapter can be trained on top of them
// [Dettmers et al. 2023]. The quantized weights replace the originals among the parameters and are frozen.
// Call it before Adapt.
func QuantizeLayers(m Model, bits, group int, in nn.Config) error {
	d, err := adaptableModel(m)
	if err != nil {
		return err
	}
	if bits != 4 && bits != 8 || group < 1 || group*bits%8 != 0 {
		return fmt.Errorf("models: integers of %d bits in groups of %d: want 4 or 8 bits, and whole bytes a group",
			bits,
			group)
	}
	err = ReplaceWeights(m, func(w *nn.Param) (*nn.QuantizedWeight, error) {
		if cols := w.Type.Shape[1]; cols%group != 0 {
			return nil, fmt.Errorf("%d inputs are not a multiple of the group, %d", cols, group)
		}
		return integersOf(w, bits, group, in.Scope)
	})
	if err == nil && d.quantized == nil {
		err = fmt.Errorf("models: %s has no linear layers stored [out, in] that could be integers", d.config.Family)
	}
	return err
}

// ReplaceWeights replaces the weights of a model's linear layers, except heads and routers, by quantized
// ones, for layers for which of returns some.
func ReplaceWeights(m Model, of func(w *nn.Param) (*nn.QuantizedWeight, error)) error {
	d, ok := m.(*decoder)
	if !ok {
		return fmt.Errorf("models: integers for a %T: want a model of this package", m)
	}
	for _, a := range d.linear {
		l, ok := a.(*nn.Linear)
		if !ok || (AdapterConfig{}).target(layerName(l)) == "" {
			continue
		}
		q, err := of(l.Weight)
		if err != nil {
			return fmt.Errorf("models: %s: %w", layerName(l), err)
		}
		if q != nil {
			d.setQuantized(l, q)
		}
	}
	return nil
}

// setQuantized replaces a layer's weights by quantized ones.
func (m *decoder) setQuantized(l *nn.Linear, q *nn.QuantizedWeight) {
	i := slices.Index(m.params, l.Weight)
	m.params = slices.Replace(slices.Clone(m.params), i, i+1, q.Params()...)
	l.Weight.Value = nil
	l.SetQuantized(q)
	m.quantized = append(m.quantized, l)
}

// quantizedAs gives a model the quantized weights of another one of the same architecture.
func (m *decoder) quantizedAs(from *decoder) error {
	for i, a := range from.linear {
		l, ok := a.(*nn.Linear)
		if !ok || l.Quantized() == nil {
			continue
		}
		q := *l.Quantized()
		for _, p := range []**nn.Param{&q.Q, &q.Scale, &q.Zero} {
			if *p == nil {
				continue
			}
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

// IntegersOf returns the parameters that represent a quantized weight [out, in], without values; zeros means
// that groups have zero points.
func IntegersOf(w *nn.Param, bits, group int, zeros bool) *nn.QuantizedWeight {
	rows, cols := w.Type.Shape[0], w.Type.Shape[1]
	stem := strings.TrimSuffix(w.Name, "weight")
	q := &nn.QuantizedWeight{Bits: bits, Group: group,
		Q:     w.Like(stem+"weight_packed", op.Type{DType: array.U8, Shape: array.Shape{rows, cols * bits / 8}}),
		Scale: w.Like(stem+"weight_scale", op.Type{DType: array.F32, Shape: array.Shape{rows, cols / group}})}
	if zeros {
		q.Zero = w.Like(stem+"weight_zero_point", op.Type{DType: array.U8, Shape: q.Scale.Type.Shape})
	}
	for _, p := range q.Params() {
		p.Fixed = true
	}
	return q
}

// integersOf returns the parameters that represent a quantized weight; without a scope they have only types.
func integersOf(w *nn.Param, bits, group int, s op.Scope) (*nn.QuantizedWeight, error) {
	rows, cols := w.Type.Shape[0], w.Type.Shape[1]
	q := IntegersOf(w, bits, group, false)
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
	q.Q.Value = host.Tensor(array.FromSlice(PackedBytes(m.Values, bits), q.Q.Type.Shape...))
	q.Scale.Value = host.Tensor(array.FromSlice(m.Scales, q.Scale.Type.Shape...))
	return q, nil
}

// PackedBytes packs values as op.QuantizedLinear reads them.
func PackedBytes(values []byte, bits int) []byte {
	if bits == 8 {
		return values
	}
	out := make([]byte, len(values)/2)
	for i := range out {
		out[i] = values[2*i] | values[2*i+1]<<4
	}
	return out
}
