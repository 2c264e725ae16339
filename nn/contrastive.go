package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Contrastive returns the contrastive loss of pairs: row i of x matches row i of y [rows, width] and no
// other. Rows are compared by cosine similarity over a temperature, in both directions, as in CLIP. [Radford
// et al. 2021]
func Contrastive(x, y *op.Tensor, temperature float64) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	scores := op.MulScalar(op.MatMulT(unit(x), unit(y), false, true), 1/temperature)
	labels := op.Iota(x.Scope(), array.I32, array.Shape{x.Dim(0)}, 0)
	across := op.CrossEntropy(scores, labels, op.CrossEntropyConfig{})
	back := op.CrossEntropy(op.Transpose(scores, 1, 0), labels, op.CrossEntropyConfig{})
	return op.MulScalar(op.Add(across, back), 0.5)
}

// unit returns the rows of x normalized to length 1.
func unit(x *op.Tensor) *op.Tensor {
	length := op.Sqrt(op.AddScalar(op.Sum(op.Square(x), -1), 1e-12))
	return op.Div(x, op.Unsqueeze(length, -1))
}
