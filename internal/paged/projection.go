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
	watch  func(x []float32, rows int) // nil unless somebody watches
}

func (b *builder) linear(l *nn.Linear) projection {
	return projection{weight: b.weight(l.Weight), bias: b.vector(l.Bias), watch: b.watching(0, l.Weight)}
}

// watching is what tells the watcher of the inputs that parameters share.
func (b *builder) watching(part int, ps ...*nn.Param) func(x []float32, rows int) {
	if b.Watch == nil {
		return nil
	}
	return func(x []float32, rows int) {
		for _, p := range ps {
			b.Watch(p, part, x, rows)
		}
	}
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
	return projection{weight: b.weight(weights...), bias: bias, watch: b.watching(0, weights...)}
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
		return projection{weight: b.pack(packed.Columns(a)), bias: b.vector(p.Bias), watch: b.watching(0, p.Weight)}
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", p))
	return projection{}
}

// run sets y to the product of rows of x.
func (p projection) run(pool *kernel.Pool, y, x []float32, rows int) {
	if p.watch != nil {
		p.watch(x, rows)
	}
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
