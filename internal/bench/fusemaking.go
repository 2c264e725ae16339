package bench

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// FuseMaking is the time to fuse the ops of a program into loops and to compile them.
type FuseMaking struct {
	Nodes int     `json:"nodes"`
	Loops int     `json:"loops"`
	MS    float64 `json:"ms"` // of the processor
	Code  int     `json:"code_bytes"`
}

// String prints the result in a line.
func (m FuseMaking) String() string {
	return fmt.Sprintf("%d ops, %d loops, made in %.1f ms of processor time; %d bytes of code", m.Nodes, m.Loops,
		m.MS, m.Code)
}

// MakeLoops measures it for a program of at least the given number of ops.
func MakeLoops(nodes int) (FuseMaking, error) {
	const perBlock = 48 // fewer than a block has, with its gradient
	f, err := blocksOf(1 + nodes/perBlock)
	if err != nil {
		return FuseMaking{}, err
	}
	m := FuseMaking{Nodes: len(f.Nodes())}
	var g *pass.Grouping
	m.MS, err = worked(1, func() error {
		_, g, err = pass.Groups(f, pass.GroupConfig{})
		return err
	})
	if err == nil {
		m.Loops, m.Code = g.Sizes()
	}
	return m, err
}

// blocksOf returns the gradient of blocks of a norm, a product and an activation in primitive ops.
func blocksOf(blocks int) (*ir.Func, error) {
	b := ir.NewBuilder("blocks")
	y := b.Param("x", f32(256, 64))
	var weights []*op.Tensor
	for range blocks {
		w := b.Param("w", f32(64, 64))
		weights = append(weights, w)
		scale := op.Rsqrt(op.AddScalar(op.KeepDims(op.Mean(op.Square(y), -1), y, -1), 1e-6))
		y = op.Add(y, geluUnfused(op.MatMul(op.Mul(y, scale), w)))
	}
	f, err := b.Build(op.Grad([]*op.Tensor{op.Mean(y)}, nil, weights)...)
	if err != nil {
		return nil, err
	}
	return pass.Optimize(f)
}
