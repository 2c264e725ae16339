package seed_test

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Two products of large matrices: where computing is dear, rows are split, and nothing is sent.
func ExampleFind() {
	b := ir.NewBuilder("mlp")
	t := func(rows, columns int) ir.Type { return ir.Type{DType: array.F32, Shape: array.Shape{rows, columns}} }
	x, w, v := b.Param("x", t(4096, 512)), b.Param("w", t(512, 2048)), b.Param("v", t(2048, 512))
	f, _ := b.Build(op.MatMul(op.MatMul(x, w), v))
	m, _ := mesh.Parse("dp=8")
	r, err := seed.Find(f, seed.Config{Mesh: m, Prices: spmd.Prices{Flop: 1e-12}})
	fmt.Println(r.Specs[x.ID()], r.Specs[w.ID()], r.Specs[v.ID()], r.Price.Communication, err)
	// Output: @[dp,_] @[_,_] @[_,_] 0 <nil>
}
