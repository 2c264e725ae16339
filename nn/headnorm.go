package nn

import (
	"github.com/galley-ml/galley/op"
)

// HeadNorm is a LayerNorm of each head of x [batch, seq, heads, dim].
type HeadNorm struct {
	// Weights is one parameter [heads, dim] or [dim], or one [dim] for each head.
	Weights []*Param
	// Bias [dim] may be nil.
	Bias *Param
	Eps  float64
}

// Forward normalises the last dim of x.
func (n *HeadNorm) Forward(x *op.Tensor) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	zeros := op.Zeros(x.Scope(), x.DType(), x.Dim(-1))
	y := op.Mul(op.LayerNorm(x, op.OnesLike(zeros), zeros, n.Eps), n.weight())
	if n.Bias != nil {
		y = op.Add(y, n.Bias.Value)
	}
	return y
}

func (n *HeadNorm) weight() *op.Tensor {
	if len(n.Weights) == 1 {
		return n.Weights[0].Value
	}
	var rows []*op.Tensor
	for _, w := range n.Weights {
		rows = append(rows, op.Unsqueeze(w.Value, 0))
	}
	return op.Concat(rows, 0)
}
