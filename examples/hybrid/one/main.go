// Command one trains a chain of products on one device: what examples/hybrid is without its annotations.
package main

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

const batch, width, layers, steps = 8, 16, 4, 6

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	host := galley.CPU(galley.Config{})
	defer host.Close()
	model, err := galley.ToStatic(newMLP(host.NewSession()), loader{}, galley.MeanSquares, optim.AdamW{}, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	for step := range steps {
		data, err := loader{}.Batch(step)
		if err != nil {
			return err
		}
		r, err := model.Run(context.Background(), data...)
		if err != nil {
			return err
		}
		fmt.Printf("step %d  loss %.6f\n", step, r.Loss)
	}
	return nil
}

// mlp is products with tanh between them.
type mlp struct{ weights []*nn.Param }

func newMLP(s op.Scope) *mlp {
	m, in := &mlp{}, nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 7})
	for i := range layers {
		w := in.Param(fmt.Sprint("w", i), array.Shape{width, width}, nn.Normal(0.3))
		m.weights = append(m.weights, w)
	}
	return m
}

func (m *mlp) Params() []*nn.Param { return m.weights }

func (m *mlp) Forward(in ...*galley.Tensor) []*galley.Tensor {
	x := in[0]
	for _, w := range m.weights {
		x = op.Tanh(op.MatMul(x, w.Value))
	}
	return []*galley.Tensor{x}
}

// loader makes inputs and labels.
type loader struct{}

func (loader) Len() int { return steps }

func (loader) Batch(step int) ([]array.Array, error) {
	x, y := array.New(array.F64, batch, width), array.New(array.F64, batch, width)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(3*i+step)))
		y.Set(i, math.Cos(float64(5*i-step))/2)
	}
	return []array.Array{x, y}, nil
}
