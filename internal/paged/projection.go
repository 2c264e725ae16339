package paged

import (
	"fmt"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/nn"
)

// projection is a product with a weight, and perhaps a bias.
type projection struct {
	weight packed.Weight
	bias   []float32
}

func (b *builder) linear(l *nn.Linear) projection {
	return projection{b.weight(l.Weight), b.vector(l.Bias)}
}

// joined is several layers with one input as one product.
func (b *builder) joined(ls ...*nn.Linear) projection {
	var weights []*nn.Param
	var bias []float32
	some := false
	for _, l := range ls {
		weights = append(weights, l.Weight)
		if l.Bias != nil {
			some = true
			bias = append(bias, b.vector(l.Bias)...)
			continue
		}
		bias = append(bias, make([]float32, l.Weight.Type.Shape[0])...)
	}
	if !some {
		bias = nil
	}
	return projection{b.weight(weights...), bias}
}

func (b *builder) projection(p nn.Projection) projection {
	switch p := p.(type) {
	case *nn.Linear:
		return b.linear(p)
	case *nn.Dense:
		a, ok := b.read(p.Weight)
		if !ok {
			return projection{}
		}
		return projection{b.pack(packed.Columns(a)), b.vector(p.Bias)}
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", p))
	return projection{}
}

// run sets y to the product of rows of x.
func (p projection) run(pool *kernel.Pool, y, x []float32, rows int) {
	p.weight.Multiply(pool, y, x, rows)
	if p.bias == nil {
		return
	}
	n := p.weight.Out()
	for i := range rows {
		kernel.Add(y[i*n:(i+1)*n], y[i*n:(i+1)*n], p.bias)
	}
}

func (p projection) out() int { return p.weight.Out() }
