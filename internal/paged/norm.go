package paged

import (
	"fmt"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// norm normalises rows. The zero value leaves them as they are.
type norm struct {
	weight, bias []float32
	eps          float32
	centred      bool
}

func (b *builder) norm(n models.Norm) norm {
	switch n := n.(type) {
	case nil:
		return norm{}
	case *nn.RMSNorm:
		return b.rms(n)
	case *nn.LayerNorm:
		return norm{weight: b.vector(n.Weight), bias: b.vector(n.Bias), eps: float32(n.Eps), centred: true}
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", n))
	return norm{}
}

func (b *builder) rms(n *nn.RMSNorm) norm {
	if n == nil {
		return norm{}
	}
	w := b.vector(n.Weight)
	if n.Offset != 0 {
		kernel.AddScalar(w, w, float32(n.Offset))
	}
	return norm{weight: w, eps: float32(n.Eps)}
}

func (n norm) none() bool { return n.weight == nil }

// row sets y to what x becomes; they may be the same.
func (n norm) row(y, x []float32) {
	switch {
	case n.none():
		copy(y, x)
	case n.centred:
		kernel.LayerNormRow(y, x, n.weight, n.bias, n.eps)
	default:
		kernel.RMSNormRow(y, x, n.weight, n.eps)
	}
}

// each normalises parts of a row, as long as the norm is.
func (n norm) each(x []float32) {
	for w := len(n.weight); w > 0 && len(x) >= w; x = x[w:] {
		n.row(x[:w], x[:w])
	}
}
