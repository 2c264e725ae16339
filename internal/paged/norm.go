package paged

import (
	"fmt"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// norm normalises rows. The zero value leaves them unchanged.
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
		return b.layerNorm(n)
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", n))
	return norm{}
}

func (b *builder) layerNorm(n *nn.LayerNorm) norm {
	out := norm{weight: b.vector(n.Weight), bias: b.vector(n.Bias), eps: float32(n.Eps), centred: true}
	if n.Weight == nil {
		out.weight = ones(b.config.Hidden)
	}
	if n.Bias == nil {
		out.bias = make([]float32, len(out.weight))
	}
	return out
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// headNorms returns the norms, with a mean, of each of a device's heads; nil stays nil.
func (b *builder) headNorms(n *nn.HeadNorm, dim int, own span) []norm {
	if n == nil {
		return nil
	}
	var weights []float32
	for _, w := range n.Weights {
		weights = append(weights, b.vector(w)...)
	}
	bias := b.vector(n.Bias)
	if bias == nil {
		bias = make([]float32, dim)
	}
	var list []norm
	for h := own.lo; h < own.hi && b.err == nil; h++ {
		at := h * dim % len(weights) // all heads may share one weight
		list = append(list, norm{weight: weights[at : at+dim], bias: bias, eps: float32(n.Eps), centred: true})
	}
	return list
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

// row writes the normalised x to y; they may be the same.
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

// each normalises parts of a row, each of the norm's size.
func (n norm) each(x []float32) {
	for w := len(n.weight); w > 0 && len(x) >= w; x = x[w:] {
		n.row(x[:w], x[:w])
	}
}
