package paged

import (
	"fmt"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/nn"
)

// projection is a product with a weight and an optional bias.
type projection struct {
	weight packed.Weight
	bias   []float32
	pieces []piece                     // what an adapter may update; none for embeddings, routers and experts
	watch  func(x []float32, rows int) // nil unless the inputs are observed
}

// linear returns a layer that is replicated on every device.
func (b *builder) linear(l *nn.Linear) projection {
	p := whole(l.Weight)
	p.bias = l.Bias
	return b.product(p)
}

// pieceOf returns some rows of a layer.
func (b *builder) pieceOf(p nn.Projection, rows span) piece {
	switch p := p.(type) {
	case *nn.Linear:
		return piece{weight: p.Weight, bias: p.Bias, rows: rows}
	case *nn.Dense:
		return piece{weight: p.Weight, bias: p.Bias, dense: true, rows: rows}
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", p))
	return piece{}
}

// shared returns a device's rows of a layer with out rows.
func (b *builder) shared(l nn.Projection, out int) projection {
	p := b.pieceOf(l, b.share(out))
	if b.err != nil {
		return projection{}
	}
	return b.product(p)
}

// outOf returns the number of rows of a layer.
func outOf(p nn.Projection) int {
	switch p := p.(type) {
	case *nn.Linear:
		return p.Weight.Type.Shape[0]
	case *nn.Dense:
		return p.Weight.Type.Shape[1]
	}
	return 0
}

// watching returns a function that reports the common inputs of pieces to Watch.
func (b *builder) watching(part int, ps ...piece) func(x []float32, rows int) {
	if b.Watch == nil {
		return nil
	}
	return func(x []float32, rows int) {
		for _, p := range ps {
			b.Watch(p.weight, part, x, rows)
		}
	}
}

// multiply computes the product of rows of x into y, with the adapters of the rows applied.
func (s *Step) multiply(p projection, y, x []float32, rows int) {
	if p.watch != nil {
		p.watch(x, rows)
	}
	p.weight.Multiply(s.pool(), y, x, rows)
	for _, r := range s.adapted {
		s.adapt(p, r, y, x)
	}
	if p.bias == nil {
		return
	}
	n := p.weight.Out()
	for i := range rows {
		kernel.Add(y[i*n:(i+1)*n], y[i*n:(i+1)*n], p.bias)
	}
}

func (p projection) out() int { return p.weight.Out() }
