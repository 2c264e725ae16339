// Package squares is a pass of another module than Galley's: a number times itself becomes its square, which
// reads it once.
package squares

import (
	"sync/atomic"

	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

func init() {
	err := strategy.RegisterPass(strategy.Pass{Name: "squares", About: "a number times itself is its square"},
		"merge", rewrite)
	if err != nil {
		panic(err)
	}
}

// found is how many products became squares.
var found atomic.Int64

func rewrite(p *op.Program) (*op.Program, error) {
	return p.Rewrite(func(b *op.Builder, n *op.Node, in []*op.Tensor) []*op.Tensor {
		if name := n.Op().Name(); name == "mul" && in[0] == in[1] {
			found.Add(1)
			return []*op.Tensor{op.Square(in[0])}
		}
		return b.Apply(n.Op(), in)
	})
}
