package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Embedding is a table of vectors looked up by index.
type Embedding struct {
	Weight *Param
	// Still, if not nil, is the padding index, whose vector receives no gradient.
	Still *int
}

// NewEmbedding creates a table of count vectors.
func NewEmbedding(in *Init, count, width int) *Embedding {
	first := Normal(1)
	if in.std > 0 {
		first = Normal(in.std)
	}
	return &Embedding{Weight: in.Param("weight", array.Shape{count, width}, first)}
}

// Forward returns the vector of each of ids, as a new last dim.
func (e *Embedding) Forward(ids *op.Tensor) *op.Tensor {
	x := op.Embedding(ids, e.Weight.Value)
	if e.Still == nil || x.Err() != nil {
		return x
	}
	still := op.Unsqueeze(op.Equal(ids, op.Const(ids, float64(*e.Still))), -1)
	return op.Where(still, op.StopGradient(x), x)
}

// Logits returns x times every vector of the table, for tied output heads.
func (e *Embedding) Logits(x *op.Tensor) *op.Tensor {
	return op.MatMulT(x, e.Weight.Value, false, true)
}
