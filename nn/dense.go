package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Dense is x·W + b with weights stored [in, out], as GPT-2 has them, where Linear stores [out, in].
type Dense struct{ Weight, Bias *Param }

// NewDense makes a layer.
func NewDense(in *Init, from, to int) *Dense {
	return &Dense{
		Weight: in.Param("weight", array.Shape{from, to}, in.weights(from)),
		Bias:   in.Param("bias", array.Shape{to}, in.biases(from)),
	}
}

// Forward applies the layer to the last dim of x.
func (l *Dense) Forward(x *op.Tensor) *op.Tensor {
	return op.LinearT(x, l.Weight.Value, l.Bias.Value)
}
