package nn_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// images returns a batch of numbers between -1 and 1.
func images(seed int, shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range a.Len() {
		a.Set(i, math.Sin(float64(seed*31+i*7)))
	}
	return a
}

// channel returns the mean and the biased variance of a channel of x [batch, channels, h, w], and of how
// many.
func channel(x array.Array, c int) (mean, variance float64, n int) {
	s := x.Shape()
	each := s[2] * s[3]
	for pass := range 2 {
		for b := range s[0] {
			for k := range each {
				v := x.At((b*s[1]+c)*each + k)
				if pass == 0 {
					mean += v
					n++
				} else {
					variance += (v - mean) * (v - mean)
				}
			}
		}
		if pass == 0 {
			mean /= float64(n)
		}
	}
	return mean, variance / float64(n), n
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func at(t *testing.T, x *op.Tensor, i int) float64 {
	t.Helper()
	a, err := galley.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a.At(i)
}

// TestBatchNorm: eagerly, without a trainer, a layer in training mode normalises by its batch and keeps
// PyTorch's running statistics, by momentum or of all batches alike; in evaluation it normalises by them.
func TestBatchNorm(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	for _, c := range []nn.BatchNormConfig{{}, {Momentum: 0.3, Eps: 1e-3}, {Cumulative: true, Plain: true}} {
		s := d.NewSession()
		in := nn.NewInit(nn.Config{Scope: s, DType: array.F64})
		l := nn.NewBatchNorm(in, 2, c)
		momentum, eps, means, vars := c.Momentum, c.Eps, [2]float64{}, [2]float64{1, 1}
		if momentum == 0 {
			momentum = 0.1
		}
		if eps == 0 {
			eps = 1e-5
		}
		eval := func(x array.Array) {
			y := l.Forward(s.Tensor(x))
			for ch := range 2 {
				i := ch * x.Shape()[2] * x.Shape()[3]
				near(t, "evaluated", at(t, y, i), (x.At(i)-means[ch])/math.Sqrt(vars[ch]+eps))
			}
		}
		eval(images(9, 3, 2, 2, 3))
		restore := nn.Train(in.Params(), func() *op.Tensor { return op.Full(s, array.I64, nil, 1) })
		for step := range 3 {
			x := images(step, 3, 2, 2, 3)
			y := l.Forward(s.Tensor(x))
			if c.Cumulative {
				momentum = 1 / float64(step+1)
			}
			for ch := range 2 {
				mean, variance, n := channel(x, ch)
				i := ch * 6
				near(t, "trained", at(t, y, i), (x.At(i)-mean)/math.Sqrt(variance+eps))
				means[ch] = (1-momentum)*means[ch] + momentum*mean
				vars[ch] = (1-momentum)*vars[ch] + momentum*variance*float64(n)/float64(n-1)
				near(t, "running_mean", at(t, l.Mean.Value, ch), means[ch])
				near(t, "running_var", at(t, l.Var.Value, ch), vars[ch])
			}
			near(t, "num_batches_tracked", at(t, l.Count.Value, 0), float64(step+1))
		}
		restore()
		eval(images(8, 3, 2, 2, 3))
		if n := len(nn.Trainable(in.Params())); c.Plain && n != 0 || !c.Plain && n != 2 {
			t.Errorf("%d trainable parameters", n)
		}
	}
}
