// Command recommend plans a recommendation model of your own, whose table of items is larger than a device,
// for a host of eight GPUs, and trains a small one on four in-process devices. Nothing is annotated.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func main() {
	dir, err := os.MkdirTemp("", "recommend")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(os.Stdout, dir); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, dir string) error {
	// 40 million items of 128 numbers: 82 GB with AdamW's memory and gradients. Shapes are enough to plan.
	large := newModel(nn.NewInit(nn.Config{}), 40_000_000, 128)
	p, err := galley.Plan(large, "8 H100-SXM", config(4096))
	if err != nil {
		return err
	}
	fmt.Fprint(w, p)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	small := newModel(nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1}), 50_000, 32)
	return train(w, small, filepath.Join(dir, "plan.yaml"))
}

// config returns a training run on so many pairs of users' histories and ratings.
func config(batch int) galley.PlanConfig {
	return galley.PlanConfig{Loss: galley.MeanSquares, Optimizer: optim.AdamW{}, Devices: 4,
		Batch: []galley.Type{
			{DType: array.I32, Shape: array.Shape{batch, items}}, {DType: array.F32, Shape: array.Shape{batch, 1}}}}
}

// items is how many of them a history has.
const items = 8

// newModel looks items up in a table and makes a rating of them.
func newModel(in *nn.Init, count, width int) galley.Model {
	table := nn.NewEmbedding(in.At("table"), count, width)
	top, out := nn.NewLinear(in.At("top"), items*width, 256), nn.NewLinear(in.At("out"), 256, 1)
	return galley.ModelFunc(in.Params(), func(b []*galley.Tensor) []*galley.Tensor {
		x := op.Reshape(table.Forward(b[0]), b[0].Dim(0), items*width)
		return []*galley.Tensor{out.Forward(op.ReLU(top.Forward(x)))}
	})
}

// train has a plan found, saves it, reads it and takes steps by it.
func train(w io.Writer, m galley.Model, path string) error {
	c := config(batch)
	c.Strategy.TP = 4 // said, so that all devices take part; how weights are split is found
	p, err := galley.Plan(m, "", c)
	if err != nil {
		return err
	}
	if err := p.Save(path); err != nil {
		return err
	}
	if p, err = galley.LoadPlan(path, m, c); err != nil {
		return err
	}
	planned, err := p.Apply(m, optim.AdamW{})
	if err != nil {
		return err
	}
	s, err := galley.ToStatic(planned, ratings{}, galley.MeanSquares, nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for i := range 3 {
		b, err := ratings{}.Batch(i)
		if err != nil {
			return err
		}
		r, err := s.Run(context.Background(), b...)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "step %d on %s: loss %.4f\n", i, p.Strategy, r.Loss)
	}
	return nil
}

const batch = 256

// ratings are made up.
type ratings struct{}

func (ratings) Len() int { return 3 }

func (ratings) Batch(i int) ([]array.Array, error) {
	ids, stars := array.New(array.I32, batch, items), array.New(array.F32, batch, 1)
	for k := range array.Data[int32](ids) {
		array.Data[int32](ids)[k] = int32((k*7919 + i) % 50_000)
	}
	for k := range array.Data[float32](stars) {
		array.Data[float32](stars)[k] = float32(k % 5)
	}
	return []array.Array{ids, stars}, nil
}
