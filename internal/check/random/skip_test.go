package random

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// skipping returns layers that each take what the two before them gave, and the last one what all gave.
func skipping(layers, width int) Build {
	return func(s op.Scope) (Model, error) {
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
		var list []*nn.Linear
		for i := range layers {
			list = append(list, nn.NewLinear(in.Index(i), width, width))
		}
		return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
			h, before, all := b[0], b[0], b[0]
			for i, l := range list {
				h = op.Mark(h, nn.LayerMark(i))
				h, before = op.Add(op.Tanh(l.Forward(h)), before), h
				all = op.Add(all, h)
			}
			return op.Mean(op.Square(op.Add(h, op.Mul(all, before))))
		}}, in.Err()
	}
}

// TestSkips: layers may use what several earlier stages made, under every schedule, with few rows and many
// devices.
func TestSkips(t *testing.T) {
	for _, rows := range []int{4, 8} {
		batches := [][]array.Array{{wave(1, rows, 6)}, {wave(2, rows, 6)}}
		sameAsOne(t, skipping(4, 6), batches, galley.Strategy{PP: 2, VPP: 2, Schedule: "interleaved", Micro: 4},
			galley.Strategy{PP: 2, Schedule: "zbv", Micro: 4}, galley.Strategy{PP: 2, Schedule: "dualpipev", Micro: 4},
			galley.Strategy{PP: 4, Micro: 4}, galley.Strategy{PP: 2, Schedule: "zbh1", Micro: 4,
				DP: 2}, galley.Strategy{PP: 2, Schedule: "zbv", Micro: 4, DP: 3, Zero: 2}, galley.Strategy{PP: 3, DP: 2,
				Micro: 3, Zero: 3}, galley.Strategy{PP: 2, DP: 4, Micro: 2, Zero: 1})
	}
}
