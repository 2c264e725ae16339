// Command hybrid trains a chain of products on eight devices in two meshes: the first half of the weights is
// on devices 0 to 3, the second on 4 to 7. Each mesh has an axis for data and one for tensors; weights are
// split by columns and by rows in turn, and activations are resharded from one mesh to the next. ToStatic
// makes a pipeline of it. Directory one is the same program for one device.
package main

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

const batch, width, layers, steps = 8, 16, 4, 6

// a and b are two device meshes, stages has the mesh of each layer, pipeline the order of the stages' work.
var a, b = mesh.MustParse("dp=2,tp=2@[0,1,2,3]"), mesh.MustParse("dp=2,tp=2@[4,5,6,7]")
var stages, pipeline = []*mesh.Mesh{a, a, b, b}, galley.Strategy{Schedule: "1f1b", Micro: 4}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	world, err := dtensor.NewWorld(galley.CPU(galley.Config{}), 8)
	if err != nil {
		return err
	}
	defer world.Close()
	model, err := galley.ToStatic(newMLP(world), loader{}, galley.MeanSquares, optim.AdamW{}, &pipeline)
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
		w.Value = dtensor.Shard(w.Value, stages[i], mesh.Replicate(), mesh.Shard(1-i%2)).Detach().Track()
		m.weights = append(m.weights, w)
	}
	return m
}

func (m *mlp) Params() []*nn.Param { return m.weights }

func (m *mlp) Forward(in ...*galley.Tensor) []*galley.Tensor {
	x := in[0]
	for i, w := range m.weights {
		x = dtensor.Reshard(x, stages[i], mesh.Shard(0))
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
