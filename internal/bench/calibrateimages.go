package bench

import (
	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// imageSteps returns steps of a small convolutional network, whose ops language models do not have. Images is
// the number of images of a batch, Size the width of each.
func imageSteps() []hostStep {
	var list []hostStep
	for _, c := range []images{{Images: 16, Size: 16}, {Images: 32, Size: 8}, {Images: 8, Size: 32}} {
		for _, s := range []galley.Strategy{{DP: 2}, {DP: 2, Micro: 4}} {
			list = append(list, hostStep{images: c, s: s})
		}
		for _, s := range []galley.Strategy{{}, {Micro: 4}} {
			list = append(list, hostStep{images: c, s: s, all: true})
		}
	}
	return list
}

// images is the sizes of a batch of pictures; the zero value is none.
type images struct{ Images, Size int }

// trainer trains convolutions of two widths with a head.
func (c images) trainer(d *galley.Device, t galley.TrainerConfig) (*galley.Trainer, error) {
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	same := op.ConvConfig{Padding: []int{1, 1}}
	first, second := nn.NewConv2D(in.At("first"), 3, 16, 3, same), nn.NewConv2D(in.At("second"), 16, 32, 3, same)
	head := nn.NewLinearNoBias(in.At("head"), 32, kindsOfImages)
	t.Device, t.Params = d, in.Params()
	t.Loss = func(b []*op.Tensor) *op.Tensor {
		x := op.ReLU(second.Forward(op.ReLU(first.Forward(b[0]))))
		return op.CrossEntropy(head.Forward(op.Mean(x, 2, 3)), b[1], op.CrossEntropyConfig{})
	}
	return galley.NewTrainer(t)
}

// kindsOfImages is the number of classes.
const kindsOfImages = 10

// batch returns pictures of noise, and labels.
func (c images) batch(seed uint32) []array.Array {
	x, y := array.New(array.F32, c.Images, 3, c.Size, c.Size), array.New(array.I32, c.Images)
	for i := range x.Len() {
		array.Data[float32](x)[i] = float32((uint32(i)+seed*7919)*2654435761)/(1<<31) - 1
	}
	for i := range y.Len() {
		array.Data[int32](y)[i] = int32((uint32(i) + seed) % kindsOfImages)
	}
	return []array.Array{x, y}
}
