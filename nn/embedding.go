package nn

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Embedding is a table of vectors that are looked up by number.
type Embedding struct{ Weight *Param }

// NewEmbedding makes a table of count vectors.
func NewEmbedding(in *Init, count, width int) *Embedding {
	first := Normal(1)
	if in.std > 0 {
		first = Normal(in.std)
	}
	return &Embedding{Weight: in.Param("weight", array.Shape{count, width}, first)}
}

// Forward is the vector of each of ids, as a new last dim.
func (e *Embedding) Forward(ids *op.Tensor) *op.Tensor { return op.Embedding(ids, e.Weight.Value) }

// Logits is x times every vector of the table: the table as an output head.
func (e *Embedding) Logits(x *op.Tensor) *op.Tensor {
	return op.MatMulT(x, e.Weight.Value, false, true)
}
