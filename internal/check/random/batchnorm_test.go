package random

import (
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// normalised returns two convolutions, each with batch normalisation behind it, and a head.
func normalised(s op.Scope) (Model, error) {
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
	var convs []*nn.Conv
	var norms []*nn.BatchNorm
	for i, c := range []nn.BatchNormConfig{{}, {Cumulative: true}} {
		convs = append(convs, nn.NewConv2D(in.Index(i).At("conv"), 4, 4, 3, op.ConvConfig{Padding: []int{1, 1}}))
		norms = append(norms, nn.NewBatchNorm(in.Index(i).At("norm"), 4, c))
	}
	head := nn.NewLinear(in.At("head"), 4, 3)
	return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
		x := b[0]
		for i, conv := range convs {
			x = op.Mark(x, nn.LayerMark(i))
			x = op.Tanh(norms[i].Forward(conv.Forward(x)))
		}
		return meanEntropy(head.Forward(op.Mean(op.Mark(x, nn.HeadMark), 2, 3)), b[1])
	}}, in.Err()
}

func normalisedBatches() [][]array.Array {
	return [][]array.Array{{wave(1, 6, 4, 3, 2), labels(3, 0, 6)}, {wave(2, 6, 4, 3, 2), labels(3, 0, 6)},
		{wave(3, 6, 4, 3, 2), labels(3, 0, 6)}}
}

// TestBatchNorm: statistics are those of the whole batch under every strategy, and the running ones are a
// part of what training changes: numbers do not depend on how a step is spread.
func TestBatchNorm(t *testing.T) {
	sameAsOne(t, normalised, normalisedBatches(), galley.Strategy{}, galley.Strategy{DP: 2},
		galley.Strategy{DP: 4}, galley.Strategy{DP: 3, Zero: 1},
		galley.Strategy{DP: 2, Zero: 2, Overlap: strategy.On},
		galley.Strategy{DP: 2, Zero: 3, Recompute: "full"},
		galley.Strategy{DP: 2, Zero: 3, Offload: strategy.Offload{Optimizer: 1}})
}

// TestBatchNormMicro: a micro-batch is normalised by its own statistics, as where gradients are accumulated
// on one device, and the running ones take their mean: however the micro-batches are spread.
func TestBatchNormMicro(t *testing.T) {
	for _, micro := range []int{2, 4} { // four are of two rows or one
		one := galley.Strategy{Micro: micro}
		want, err := Train(normalised, &one, normalisedBatches())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []galley.Strategy{{DP: 2}, {DP: 3, Zero: 2}, {PP: 2}, {PP: 2, DP: 2, Zero: 3},
			{PP: 2, Schedule: "zbh1", Recompute: "selective"}, {DP: 2, Zero: 3, Overlap: strategy.On}} {
			s.Micro = micro
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				got, err := Train(normalised, &s, normalisedBatches())
				if err == nil {
					err = got.Compare(want, 1e-9)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestBatchNormAccumulates: what micro-batches do is what the layer says, by hand.
func TestBatchNormAccumulates(t *testing.T) {
	build := func(s op.Scope) (Model, error) {
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
		w := in.Param("w", array.Shape{2}, nn.Constant(1))
		l := nn.NewBatchNorm(in.At("norm"), 2, nn.BatchNormConfig{Plain: true})
		return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
			return op.Mean(op.Square(op.Sub(op.Mul(l.Forward(b[0]), w.Value), b[1])))
		}}, in.Err()
	}
	x, y := wave(1, 5, 2), wave(2, 5, 2)
	got, err := Train(build, &galley.Strategy{Micro: 2}, [][]array.Array{{x, y}})
	if err != nil {
		t.Fatal(err)
	}
	loss, mean, variance := 0.0, 0.0, 0.9
	for _, rows := range [][2]int{{0, 3}, {3, 5}} {
		n := float64(rows[1] - rows[0])
		for c := range 2 {
			m, v := 0.0, 0.0
			for r := rows[0]; r < rows[1]; r++ {
				m += x.At(2*r+c) / n
			}
			for r := rows[0]; r < rows[1]; r++ {
				v += (x.At(2*r+c) - m) * (x.At(2*r+c) - m) / n
			}
			for r := rows[0]; r < rows[1]; r++ {
				d := (x.At(2*r+c)-m)/math.Sqrt(v+1e-5) - y.At(2*r+c)
				loss += d * d / 10
			}
			if c == 0 {
				mean, variance = mean+0.1*m*n/5, variance+0.1*v*n/(n-1)*n/5
			}
		}
	}
	for what, x := range map[string][2]float64{"loss": {got.Losses[0], loss},
		"running_mean": {got.Params[1].At(0),
			mean}, "running_var": {got.Params[2].At(0), variance}, "num_batches_tracked": {got.Params[3].At(0), 1}} {
		if !(math.Abs(x[0]-x[1]) <= 1e-12) {
			t.Errorf("%s: got %v, want %v", what, x[0], x[1])
		}
	}
}

// TestBatchNormMixed: running statistics keep their precision where layers compute in 16 bits, and a buffer
// that the trainer was not given is an error.
func TestBatchNormMixed(t *testing.T) {
	want, err := Train(normalised, nil, normalisedBatches())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Train(normalised, &galley.Strategy{AMP: "bf16", DP: 2}, normalisedBatches())
	if err == nil {
		err = got.Compare(want, 0.05)
	}
	if err != nil {
		t.Error(err)
	}
	without := func(s op.Scope) (Model, error) {
		m, err := normalised(s)
		m.Params = m.Params[:2]
		return m, err
	}
	for _, s := range []*galley.Strategy{nil, {DP: 2}} {
		if _, err := Train(without, s, normalisedBatches()); err == nil {
			t.Errorf("%v: buffers that the trainer does not have are silently kept as they are", s)
		}
	}
}
