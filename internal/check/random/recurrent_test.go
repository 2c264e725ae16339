package random

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecurrent: recurrent layers, unrolled or as scans, train under strategies as on one device, dropout
// between them, too.
func TestRecurrent(t *testing.T) {
	t.Run("unrolled", func(t *testing.T) { tryRecurrent(t, false) })
	t.Run("scan", func(t *testing.T) { tryRecurrent(t, true) })
}

func tryRecurrent(t *testing.T, scan bool) {
	for name, make := range map[string]func(in *nn.Init, from, hidden int,
		c nn.RecurrentConfig) *nn.Recurrent{"rnn": nn.NewRNN, "gru": nn.NewGRU, "lstm": nn.NewLSTM} {
		build := func(s op.Scope) (Model, error) {
			in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
			l := make(in.At("rnn"), 3, 4, nn.RecurrentConfig{Layers: 3, Bidirectional: true, Dropout: 0.3,
				Scan: scan})
			head := nn.NewLinear(in.At("head"), 8, 3)
			return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
				return meanEntropy(head.Forward(op.Mean(l.Forward(b[0]), 1)), b[1])
			}}, in.Err()
		}
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "lstm" {
				t.Skip("it differs from lstm in numbers only")
			}
			batches := [][]array.Array{{wave(1, 6, 4, 3), labels(3, 0, 6)}, {wave(2, 6, 4, 3), labels(3, 0, 6)}}
			sameAsOne(t, build, batches, galley.Strategy{DP: 2}, galley.Strategy{DP: 2, Zero: 3, Micro: 3},
				galley.Strategy{Micro: 4, Recompute: "full"}, galley.Strategy{PP: 2, Micro: 3},
				galley.Strategy{DP: 2, PP: 2, TP: 2, Micro: 2})
		})
	}
}
