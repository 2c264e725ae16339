package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Dense is x·W + b with weights stored [in, out], as in GPT-2, while Linear stores [out, in].
type Dense struct {
	Weight, Bias *Param
	// adapter, if not nil, updates the weights.
	adapter *Adapter
}

// NewDense makes a layer.
func NewDense(in *Init, from, to int) *Dense {
	l := &Dense{
		Weight: in.Param("weight", array.Shape{from, to}, in.weights(from)),
		Bias:   in.Param("bias", array.Shape{to}, in.biases(from)),
	}
	in.adaptable = append(in.adaptable, l)
	return l
}

// Forward applies the layer to the last dim of x.
func (l *Dense) Forward(x *op.Tensor) *op.Tensor {
	if l.adapter != nil {
		product := func(x *op.Tensor) *op.Tensor { return op.MatMul(x, l.Weight.Value) }
		return op.Add(l.adapter.forward(x, l, product), l.Bias.Value)
	}
	return op.LinearT(x, l.Weight.Value, l.Bias.Value)
}
