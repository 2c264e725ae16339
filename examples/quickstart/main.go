// Command quickstart fits a sine with a small network: the program of the README.
package main

import (
	"fmt"
	"log"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func main() {
	d := galley.CPU(galley.Config{})
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1})
	up, down := nn.NewLinear(in.At("up"), 1, 32), nn.NewLinear(in.At("down"), 32, 1)
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Schedule: optim.Constant{LR: 0.01},
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			return op.MSELoss(down.Forward(op.Tanh(up.Forward(batch[0]))), batch[1], "mean")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	x, y := array.New(array.F32, 64, 1), array.New(array.F32, 64, 1)
	for i := range 64 {
		v := float64(i)/32*math.Pi - math.Pi
		array.Data[float32](x)[i], array.Data[float32](y)[i] = float32(v), float32(math.Sin(v))
	}
	for range 201 {
		m, err := t.Step(x, y)
		if err != nil {
			log.Fatal(err)
		}
		if m.Step%50 == 0 {
			fmt.Printf("step %3d  loss %.3f\n", m.Step, m.Loss)
		}
	}
}
