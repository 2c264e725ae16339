package random

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// build returns the model of a shape: layers with skip connections, and a head.
func (s shape) build(scope op.Scope) (Model, error) {
	in := nn.NewInit(nn.Config{Scope: scope, DType: s.DType, Seed: 5})
	var layers []*nn.Linear
	var norms []*nn.BatchNorm
	var twins [][2]*nn.Param
	for i := range s.Layers {
		if s.Tied[i] != i {
			layers = append(layers, layers[s.Tied[i]])
		} else {
			layers = append(layers, s.layer(in.Index(i)))
		}
		if s.Norm {
			norms = append(norms, nn.NewBatchNorm(in.Index(i).At("norm"), s.Width, nn.BatchNormConfig{Eps: 0.1}))
		}
		if s.Twins {
			at := func(name string) *nn.Param {
				return in.Index(i).Param(name, s.channels(), nn.Normal(0.2))
			}
			twins = append(twins, [2]*nn.Param{at("left"), at("right")})
		}
	}
	head, drop := nn.NewLinear(in.At("head"), s.Width, s.Class), nn.NewDropout(in, s.Dropout)
	m := &model{shape: s, layers: layers, norms: norms, twins: twins, head: head, drop: drop}
	if s.Captured {
		m.captured = scope.(*cpu.Session).Tensor(s.classes())
	}
	return Model{Params: in.Params()[min(s.Frozen, len(in.Params())-2):], Loss: m.loss}, in.Err()
}

// layer returns a matrix and a bias; those of a convolution are its kernel's.
func (s shape) layer(in *nn.Init) *nn.Linear {
	if s.Kind != "conv" {
		return nn.NewLinear(in, s.Width, s.Width)
	}
	return &nn.Linear{
		Weight: in.Param("weight", array.Shape{s.Width, s.Width, 3, 3}, nn.Normal(0.2)),
		Bias:   in.Param("bias", array.Shape{s.Width}, nn.Normal(0.2)),
	}
}

// channels returns the shape of a number for each channel.
func (s shape) channels() array.Shape {
	if s.Kind == "conv" {
		return array.Shape{s.Width, 1, 1}
	}
	return array.Shape{s.Width}
}

// classes returns a weight for each class.
func (s shape) classes() array.Array {
	a := array.New(s.DType, s.Class)
	for i := range a.Len() {
		a.Set(i, 1+math.Cos(float64(i))/2)
	}
	return a
}

type model struct {
	shape
	layers   []*nn.Linear
	norms    []*nn.BatchNorm
	twins    [][2]*nn.Param
	head     *nn.Linear
	drop     *nn.Dropout
	captured *op.Tensor
}

func (m *model) loss(batch []*op.Tensor) *op.Tensor {
	x, all := batch[0], []*op.Tensor{batch[0]}
	for i, l := range m.layers {
		x = op.Mark(x, nn.LayerMark(i))
		y := m.forward(l, x)
		if m.norms != nil {
			y = m.norms[i].Forward(y)
		}
		if m.twins != nil {
			y = op.Add(op.Add(y, m.twins[i][0].Value), m.twins[i][1].Value)
		}
		if j := m.Skips[i]; j >= 0 {
			back := all[j]
			if m.Stops[i] {
				back = op.StopGradient(back)
			}
			y = op.Add(y, back)
		}
		if i%2 == 0 {
			y = m.drop.Forward(y)
		}
		x, all = y, append(all, y)
	}
	x = op.Mark(x, nn.HeadMark)
	if m.Kind == "conv" {
		x = op.Mean(x, 2, 3)
	}
	z := m.head.Forward(x)
	if m.captured != nil {
		z = op.Mul(z, m.captured)
	}
	if m.Scalar {
		z = op.Mul(z, op.Cast(batch[2], z.DType()))
	}
	for _, l := range losses {
		if l.name == m.Loss {
			return l.of(parts{z: z, y: batch[1], x: x, w: m.head.Weight.Value})
		}
	}
	return nil
}

func (m *model) forward(l *nn.Linear, x *op.Tensor) *op.Tensor {
	switch m.Kind {
	case "conv":
		return op.Tanh(op.Conv2D(x, l.Weight.Value, l.Bias.Value, op.ConvConfig{Padding: []int{1, 1}}))
	case "attention":
		h := op.Reshape(l.Forward(x), x.Dim(0), x.Dim(1), 2, m.Width/2)
		y := op.Attention(h, h, op.Tanh(h), op.AttentionConfig{Causal: true})
		return op.Add(x, op.Reshape(y, x.Dim(0), x.Dim(1), m.Width))
	}
	return op.Tanh(l.Forward(x))
}
