package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Linear is x·Wᵀ + b with weights stored [out, in].
type Linear struct {
	Weight *Param
	// Bias is nil in a layer without one.
	Bias *Param
	// adapter, if not nil, updates the weights.
	adapter *Adapter
	// quantized, if not nil, replaces the weights.
	quantized *QuantizedWeight
}

// NewLinear makes a layer with a bias.
func NewLinear(in *Init, from, to int) *Linear {
	l := NewLinearNoBias(in, from, to)
	l.Bias = in.Param("bias", array.Shape{to}, in.biases(from))
	return l
}

// NewLinearNoBias makes a layer without a bias.
func NewLinearNoBias(in *Init, from, to int) *Linear {
	l := &Linear{Weight: in.Param("weight", array.Shape{to, from}, in.weights(from))}
	in.adaptable = append(in.adaptable, l)
	return l
}

// Forward applies the layer to the last dim of x.
func (l *Linear) Forward(x *op.Tensor) *op.Tensor {
	if l.adapter != nil {
		return l.adapted(x)
	}
	if l.Bias == nil {
		return l.product(x)
	}
	return op.Add(l.product(x), l.Bias.Value)
}

// adapted returns the layer with its adapter.
func (l *Linear) adapted(x *op.Tensor) *op.Tensor {
	y := l.adapter.forward(x, l, l.product)
	if l.Bias == nil {
		return y
	}
	return op.Add(y, l.Bias.Value)
}
