package optim

import "github.com/galley-ml/galley/op"

// GlobalNorm returns the norm of all gradients as one vector, as an f32 scalar.
func GlobalNorm(grads []*op.Tensor) *op.Tensor {
	var total *op.Tensor
	for _, g := range grads {
		s := op.SumSquares(g)
		if total == nil {
			total = s
		} else {
			total = op.Add(total, s)
		}
	}
	return op.Sqrt(total)
}

// ClipScale returns the factor that clips gradients to a norm of at most limit.
func ClipScale(norm *op.Tensor, limit float64) *op.Tensor {
	// The small term avoids a division by zero; PyTorch's clip_grad_norm_ has the same.
	scale := op.Div(op.Const(norm, limit), op.AddScalar(norm, 1e-6))
	return op.Minimum(scale, op.Const(norm, 1))
}
