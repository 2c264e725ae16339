package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Conv1D is x·W + b with weights stored [in, out], as GPT-2 has them.
type Conv1D struct{ Weight, Bias *Param }

// NewConv1D makes a layer.
func NewConv1D(in *Init, from, to int) *Conv1D {
	return &Conv1D{
		Weight: in.Param("weight", array.Shape{from, to}, in.weights(from)),
		Bias:   in.Param("bias", array.Shape{to}, in.biases(from)),
	}
}

// Forward applies the layer to the last dim of x.
func (l *Conv1D) Forward(x *op.Tensor) *op.Tensor {
	return op.LinearT(x, l.Weight.Value, l.Bias.Value)
}
