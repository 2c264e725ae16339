// Command hybrid trains two matrices that lie on two meshes of a world of eight devices: the first on devices 0 to 3, the
// second on 4 to 7. Each mesh has an axis for data and one for tensors; activations cross between the meshes and their
// gradients come back. The losses are those of one device.
package main

import (
	"fmt"
	"log"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

const (
	batch, width, hidden, classes = 8, 16, 32, 4
	steps                         = 6
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	host := galley.CPU(galley.Config{})
	defer host.Close()
	w, err := galley.NewWorld(host, 8)
	if err != nil {
		return err
	}
	defer w.Close()
	plain, err := train(model{Scope: w})
	if err != nil {
		return err
	}
	first, second, err := meshes()
	if err != nil {
		return err
	}
	sharded, err := train(model{Scope: w, first: first, second: second})
	if err != nil {
		return err
	}
	for i := range plain {
		fmt.Printf("step %d  one device %.4f  two meshes %.4f\n", i, plain[i], sharded[i])
	}
	return nil
}

// meshes are two grids of four devices: the stages of a pipeline.
func meshes() (first, second *mesh.Mesh, err error) {
	if first, err = mesh.Parse("dp=2,tp=2"); err != nil {
		return nil, nil, err
	}
	second, err = mesh.Parse("dp=2,tp=2@[4,5,6,7]")
	return first, second, err
}

// model is two products; where there are meshes, the first matrix is split by columns and the second by rows.
type model struct {
	Scope         *galley.World
	first, second *mesh.Mesh
}

// lay puts a tensor on a mesh, if there is one.
func lay(x *galley.Tensor, m *mesh.Mesh, ps ...mesh.Placement) *galley.Tensor {
	if m == nil {
		return x
	}
	return galley.ShardTensor(x, m, ps...)
}

func (m model) params() []*nn.Param {
	in := nn.NewInit(nn.Config{Scope: m.Scope, Seed: 7})
	up := in.Param("up", array.Shape{width, hidden}, nn.Normal(0.2))
	down := in.Param("down", array.Shape{hidden, classes}, nn.Normal(0.2))
	up.Value = lay(up.Value, m.first, mesh.Replicate(), mesh.Shard(1)).Detach().Track()
	down.Value = lay(down.Value, m.second, mesh.Replicate(), mesh.Shard(0)).Detach().Track()
	return in.Params()
}

// loss sends the activations from the first mesh to the second, whole along its axis for tensors.
func (m model) loss(params []*nn.Param, x, labels *galley.Tensor) *galley.Tensor {
	h := op.ReLU(op.MatMul(x, params[0].Value))
	h = lay(h, m.second, mesh.Shard(0), mesh.Shard(1))
	logits := op.MatMul(h, params[1].Value)
	return op.CrossEntropy(logits, labels, op.CrossEntropyConfig{})
}

// load is one batch: inputs for the first mesh, labels for the second, both split over its axis for data. Each device makes
// its own rows only.
func (m model) load(step int) (x, labels *galley.Tensor, err error) {
	inputs := galley.Type{DType: array.F32, Shape: array.Shape{batch, width}}
	targets := galley.Type{DType: array.I32, Shape: array.Shape{batch}}
	if m.first == nil {
		all := mesh.Box{Start: []int{0, 0}, Size: []int{batch, width}}
		return m.Scope.Tensor(rows(step, all)), m.Scope.Tensor(answers(step, mesh.Box{Start: []int{0}, Size: []int{batch}})), nil
	}
	if x, err = galley.FromFunc(m.Scope, inputs, m.first, func(b mesh.Box) array.Array { return rows(step, b) }, mesh.Shard(0)); err != nil {
		return nil, nil, err
	}
	labels, err = galley.FromFunc(m.Scope, targets, m.second, func(b mesh.Box) array.Array { return answers(step, b) }, mesh.Shard(0))
	return x, labels, err
}

// rows is a part of the inputs: any numbers that depend on the step and the place.
func rows(step int, b mesh.Box) array.Array {
	a := array.New(array.F32, b.Size...)
	for i := range a.Len() {
		row, col := b.Start[0]+i/b.Size[1], b.Start[1]+i%b.Size[1]
		array.Data[float32](a)[i] = float32((row*31+col*17+step*7)%23)/11 - 1
	}
	return a
}

func answers(step int, b mesh.Box) array.Array {
	a := array.New(array.I32, b.Size...)
	for i := range a.Len() {
		array.Data[int32](a)[i] = int32((b.Start[0] + i + step) % classes)
	}
	return a
}

func train(m model) ([]float64, error) {
	params, opt := m.params(), optim.AdamW{WeightDecay: 0.1}
	slots := make([][]*galley.Tensor, len(params))
	for i, p := range params {
		slots[i] = []*galley.Tensor{op.ZerosLike(p.Value), op.ZerosLike(p.Value)}
	}
	var losses []float64
	for step := range steps {
		x, labels, err := m.load(step)
		if err != nil {
			return nil, err
		}
		loss := m.loss(params, x, labels)
		value, err := galley.Read(loss)
		if err != nil {
			return nil, err
		}
		losses = append(losses, value.At(0))
		at := optim.Step{LR: op.Full(m.Scope, array.F32, nil, 0.01), Count: op.Full(m.Scope, array.F32, nil, float64(step+1)), Scale: op.Full(m.Scope, array.F32, nil, 1)}
		for i, g := range op.GradOnce([]*galley.Tensor{loss}, nil, nn.Values(params)) {
			next, kept := opt.Update(params[i].Value.Detach(), g, slots[i], at)
			params[i].Value, slots[i] = next.Track(), kept
		}
	}
	return losses, nil
}
