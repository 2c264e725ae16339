package paged

import (
	"fmt"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/nn"
)

// mlp is the part of a layer that processes each token by itself: y and x are rows of the hidden size.
type mlp interface {
	run(s *Step, y, x []float32, rows int)
	// width returns the size of an intermediate row.
	width() int
}

func (b *builder) mlp(l any) mlp {
	switch l := l.(type) {
	case *nn.GatedMLP:
		n := outOf(l.Gate)
		own := b.share(n)
		return gated{up: b.product(b.pieceOf(l.Gate, own), b.pieceOf(l.Up, own)), inner: n,
			down: b.shared(l.Down, b.config.Hidden), act: b.activation(), silu: l.Act == nil}
	case *nn.FusedGatedMLP:
		n := outOf(l.GateUp) / 2
		own := b.share(n)
		return gated{up: b.product(b.pieceOf(l.GateUp, own), b.pieceOf(l.GateUp, own.times(1, n))), inner: n,
			down: b.shared(l.Down, b.config.Hidden), act: b.activation(), silu: l.Act == nil}
	case *nn.MLP:
		n := outOf(l.FC)
		return plain{up: b.shared(l.FC, n), inner: n, down: b.shared(l.Proj, b.config.Hidden), act: b.activation()}
	case *nn.MoE:
		return b.mixture(l)
	}
	b.fail(fmt.Errorf("a %T cannot be served yet", l))
	return nil
}

// activation returns the activation function that config.json names.
func (b *builder) activation() func(dst, x []float32) {
	switch b.config.Activation {
	case "silu", "swish":
		return kernel.SiLU[float32]
	case "gelu":
		return kernel.GELU[float32]
	case "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate":
		return kernel.GELUTanh[float32]
	case "relu":
		return kernel.ReLU[float32]
	case "tanh":
		return kernel.Tanh[float32]
	case "sigmoid":
		return kernel.Sigmoid[float32]
	}
	b.fail(fmt.Errorf("activation %q cannot be served yet", b.config.Activation))
	return nil
}

// gated is down(act(gate(x))·up(x)), with gate and up in one product; inner is the number of intermediate
// columns, on all devices.
type gated struct {
	up, down projection
	inner    int
	act      func(dst, x []float32)
	silu     bool
}

func (g gated) width() int { return g.up.out() }

func (g gated) run(s *Step, y, x []float32, rows int) {
	h := s.inner[:rows*g.up.out()]
	s.multiply(g.up, h, x, rows)
	n := g.up.out() / 2
	inner := grown(&s.gated, rows*n)
	s.rows(rows, n, func(i int) {
		row := h[2*n*i : 2*n*(i+1)]
		g.combine(inner[i*n:(i+1)*n], row[:n], row[n:])
	})
	s.finish(g.down, y, s.join(&s.inners, inner, rows, g.inner), rows)
}

// combine computes act(gate)·up, the input of the last matrix.
func (g gated) combine(dst, gate, up []float32) {
	if g.silu {
		kernel.SwiGLU(dst, gate, up)
		return
	}
	g.act(dst, gate)
	kernel.Mul(dst, dst, up)
}

// plain is down(act(up(x))).
type plain struct {
	up, down projection
	inner    int
	act      func(dst, x []float32)
}

func (p plain) width() int { return p.up.out() }

func (p plain) run(s *Step, y, x []float32, rows int) {
	n := p.up.out()
	h := s.inner[:rows*n]
	s.multiply(p.up, h, x, rows)
	s.rows(rows, n, func(i int) { p.act(h[i*n:(i+1)*n], h[i*n:(i+1)*n]) })
	s.finish(p.down, y, s.join(&s.inners, h, rows, p.inner), rows)
}
