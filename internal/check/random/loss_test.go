package random

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// classifier returns a model of two layers whose loss is made of its logits.
func classifier(loss func(w, logits, labels *op.Tensor) *op.Tensor) Build {
	return func(s op.Scope) (Model, error) {
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 1})
		one, two := nn.NewLinear(in.At("one"), 5, 7), nn.NewLinear(in.At("two"), 7, 4)
		return Model{Params: in.Params(), Loss: func(b []*op.Tensor) *op.Tensor {
			x := op.Mark(b[0], nn.LayerMark(0))
			x = op.Mark(op.Tanh(one.Forward(x)), nn.LayerMark(1))
			return loss(one.Weight.Value, two.Forward(x), b[1])
		}}, in.Err()
	}
}

func meanEntropy(logits, labels *op.Tensor) *op.Tensor {
	return op.CrossEntropy(logits, labels, op.CrossEntropyConfig{})
}

// weighted returns the losses of rows and what counts of them.
func weighted(logits, labels *op.Tensor) (losses, mask *op.Tensor) {
	losses = op.CrossEntropy(logits, labels, op.CrossEntropyConfig{Reduction: "none"})
	return losses, op.Cast(op.GreaterEqual(labels, op.ZerosLike(labels)), logits.DType())
}

// TestLossForms: a loss is the same however a batch is cut, whatever it is made of.
func TestLossForms(t *testing.T) {
	batch := []array.Array{wave(1, 7, 5), labels(4, 3, 7)}
	for name, loss := range map[string]func(w, logits, labels *op.Tensor) *op.Tensor{
		"mean": func(_, z, y *op.Tensor) *op.Tensor { return meanEntropy(z, y) },
		"sum": func(_, z, y *op.Tensor) *op.Tensor {
			return op.CrossEntropy(z, y, op.CrossEntropyConfig{Reduction: "sum"})
		},
		"twice": func(_, z, y *op.Tensor) *op.Tensor { return op.MulScalar(meanEntropy(z, y), 2) },
		"cast":  func(_, z, y *op.Tensor) *op.Tensor { return op.Cast(meanEntropy(z, y), array.F64) },
		"z-loss": func(_, z, y *op.Tensor) *op.Tensor {
			loss, lse := op.CrossEntropyLSE(z, y, op.CrossEntropyConfig{})
			return op.Add(loss, op.MulScalar(op.Mean(op.Square(lse)), 0.1))
		},
		"decay": func(w, z, y *op.Tensor) *op.Tensor {
			return op.Add(meanEntropy(z, y), op.MulScalar(op.Sum(op.Square(w)), 0.1))
		},
		"sum over a number": func(_, z, y *op.Tensor) *op.Tensor {
			losses, _ := weighted(z, y)
			return op.Div(op.Sum(losses), op.Const(losses, 3))
		},
		"sum over rows": func(_, z, y *op.Tensor) *op.Tensor {
			losses, _ := weighted(z, y)
			return op.MulScalar(op.Sum(losses), 1/float64(y.Dim(0)))
		},
		"masked": func(_, z, y *op.Tensor) *op.Tensor {
			losses, mask := weighted(z, y)
			return op.Div(op.Sum(op.Mul(losses, mask)), op.Maximum(op.Sum(mask), op.Const(mask, 1)))
		},
		"two means": func(_, z, y *op.Tensor) *op.Tensor {
			losses, mask := weighted(z, y)
			other := op.Div(op.Sum(op.Mul(losses, mask)), op.AddScalar(op.Sum(mask), 1e-3))
			return op.Sub(op.Add(meanEntropy(z, y), other), op.MulScalar(op.Mean(z), 0.5))
		},
		"temperature": func(w, z, y *op.Tensor) *op.Tensor {
			return op.Mul(meanEntropy(z, y), op.Exp(op.Mean(w)))
		},
		"sequence first": func(_, z, y *op.Tensor) *op.Tensor {
			return op.Mean(op.Square(op.Reshape(op.Transpose(z, 1, 0), -1)))
		},
		"of the batch": func(_, z, y *op.Tensor) *op.Tensor {
			return op.Mean(op.Mul(z, op.Reshape(op.Sum(op.Cast(y, z.DType())), 1, 1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			sameAsOne(t, classifier(loss), [][]array.Array{batch, batch}, galley.Strategy{Micro: 3},
				galley.Strategy{DP: 2, Micro: 2, Zero: 2}, galley.Strategy{PP: 2, Micro: 4}, galley.Strategy{DP: 3})
		})
	}
}

// TestLossRefused: a loss that is no sum over rows is refused under micro-batches, with the line that makes
// it one; without them it is what it is.
func TestLossRefused(t *testing.T) {
	batch := [][]array.Array{{wave(1, 6, 5), labels(4, 0, 6)}}
	for name, loss := range map[string]func(w, z, y *op.Tensor) *op.Tensor{
		"root of a mean": func(_, z, y *op.Tensor) *op.Tensor { return op.Sqrt(op.Mean(op.Square(z))) },
		"pairs of rows":  func(_, z, y *op.Tensor) *op.Tensor { return op.Mean(op.MatMulT(z, z, false, true)) },
		"largest row":    func(_, z, y *op.Tensor) *op.Tensor { return op.Sum(op.AMax(z, 0)) },
		"product of means": func(_, z, y *op.Tensor) *op.Tensor {
			return op.Mul(op.Mean(z), op.Mean(op.Square(z)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			build := classifier(loss)
			_, err := Train(build, &galley.Strategy{Micro: 2}, batch)
			if err == nil || !strings.Contains(err.Error(), "loss_test.go:") ||
				!strings.Contains(err.Error(), "want micro=1") {
				t.Errorf("got %v, want an error with the line", err)
			}
			sameAsOne(t, build, batch, galley.Strategy{DP: 2})
		})
	}
}
