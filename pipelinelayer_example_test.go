package galley_test

import (
	"context"
	"fmt"
	"log"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// block is a layer of your own.
type block struct{ up, down *nn.Linear }

func newBlock(in *nn.Init) parallel.Layer {
	return &block{nn.NewLinear(in.At("up"), 8, 16), nn.NewLinear(in.At("down"), 16, 8)}
}

func (b *block) Forward(x *galley.Tensor) *galley.Tensor {
	return op.Add(x, b.down.Forward(op.Tanh(b.up.Forward(x))))
}

// Five layers in two stages: the embedding in the first is the head in the second, and learns from both.
func ExampleNewPipelineLayer() {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	newEmbedding := func(in *nn.Init) parallel.Layer { return nn.NewEmbedding(in, 10, 8) }
	logits := func(l parallel.Layer, x *galley.Tensor) *galley.Tensor { return l.(*nn.Embedding).Logits(x) }
	p, err := galley.NewPipelineLayer(galley.PipelineConfig{
		Layers: []parallel.Desc{
			parallel.SharedLayerDesc{Key: "embed", New: newEmbedding},
			parallel.LayerDesc{New: newBlock},
			parallel.LayerDesc{New: newBlock},
			parallel.LayerDesc{New: newBlock},
			parallel.SharedLayerDesc{Key: "embed", Apply: logits},
		},
		Init: nn.Config{Scope: d.NewSession(), Seed: 1}, Loss: galley.CrossEntropy,
		Optimizer: &galley.Optimizer{Optimizer: optim.AdamW{}, Schedule: optim.Constant{LR: 0.03}},
		Strategy:  &galley.Strategy{PP: 2, Micro: 4}, Boundaries: []int{2},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	// Count on by three: 0 3 6 9 2 …
	x, y := array.New(array.I32, 8, 10), array.New(array.I32, 8, 10)
	for i := range x.Len() {
		array.Data[int32](x)[i], array.Data[int32](y)[i] = int32(i%10), int32((i+3)%10)
	}
	for range 20 {
		if _, err := p.TrainBatch(context.Background(), x, y); err != nil {
			log.Fatal(err)
		}
	}
	loss, err := p.EvalBatch(context.Background(), x, y)
	fmt.Printf("stages begin at layers %v, loss after 20 steps: %.2f %v\n", p.Stages(), loss, err)
	// Output:
	// stages begin at layers [0 2], loss after 20 steps: 0.01 <nil>
}
