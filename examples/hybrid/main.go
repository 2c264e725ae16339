// Command hybrid trains two matrices that are on two meshes of a world of eight devices: the first on devices
// 0 to 3, the second on 4 to 7. Each mesh has an axis for data and one for tensors; activations cross between
// the meshes and their gradients come back. The losses are those of one device.
package main

import (
	"fmt"
	"log"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
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
	w, err := dtensor.NewWorld(host, 8)
	if err != nil {
		return err
	}
	defer w.Close()
	first, second, err := meshes()
	if err != nil {
		return err
	}
	one, two := model{world: w}, model{world: w, first: first, second: second}
	plain, err := one.train(one.eager)
	if err != nil {
		return err
	}
	eager, err := two.train(two.eager)
	if err != nil {
		return err
	}
	compiled, err := two.compile()
	if err != nil {
		return err
	}
	static, err := two.train(compiled)
	if err != nil {
		return err
	}
	for i := range plain {
		fmt.Printf("step %d  one device %.4f  two meshes, eager %.4f  static %.4f\n", i, plain[i], eager[i],
			static[i])
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
	world         *dtensor.World
	first, second *mesh.Mesh
}

// lay puts a tensor on a mesh, if there is one.
func lay(x *galley.Tensor, m *mesh.Mesh, ps ...mesh.Placement) *galley.Tensor {
	if m == nil {
		return x
	}
	return dtensor.Shard(x, m, ps...)
}

// The operands of a step: two matrices, the optimizer's memory of each, its scalars, and a batch.
const (
	up = iota
	down
	slots // two for each matrix
	lr    = slots + 4
	count = lr + 1
	input = count + 1
	label = input + 1
)

// step is one training step: the loss, the next matrices and the optimizer's memory. Activations go from the
// first mesh to the second; their gradient comes back by itself.
func (m model) step(in []*galley.Tensor) []*galley.Tensor {
	weights := in[:slots]
	w1 := lay(weights[up], m.first, mesh.Replicate(), mesh.Shard(1))
	w2 := lay(weights[down], m.second, mesh.Replicate(), mesh.Shard(0))
	x, labels := lay(in[input], m.first, mesh.Shard(0)), lay(in[label], m.second, mesh.Shard(0))
	h := lay(op.ReLU(op.MatMul(x, w1)), m.second, mesh.Shard(0), mesh.Shard(1))
	loss := op.CrossEntropy(op.MatMul(h, w2), labels, op.CrossEntropyConfig{})
	out := []*galley.Tensor{loss}
	at := optim.Step{LR: in[lr], Count: in[count], Scale: op.Const(in[lr], 1)}
	var kept []*galley.Tensor
	for i, g := range op.GradOnce([]*galley.Tensor{loss}, nil, weights) {
		next, memory := optim.AdamW{WeightDecay: 0.1}.Update(weights[i].Detach(), g, in[slots+2*i:slots+2*i+2], at)
		out, kept = append(out, next), append(kept, memory...)
	}
	return append(out, kept...)
}

// runner runs a step.
type runner func(in []*galley.Tensor) ([]*galley.Tensor, error)

// eager runs it op by op.
func (m model) eager(in []*galley.Tensor) ([]*galley.Tensor, error) {
	in[up], in[down] = in[up].Track(), in[down].Track()
	out := m.step(in)
	for i, x := range out {
		if x.Err() != nil {
			return nil, x.Err()
		}
		out[i] = x.Detach()
	}
	return out, nil
}

// compile makes one program for each of the eight devices: those of the first mesh run the first product.
func (m model) compile() (runner, error) {
	var types []galley.Type
	for _, x := range m.start() {
		types = append(types, x.Type())
	}
	types = append(types, inputs, targets)
	p, err := galley.Trace("step", types, m.step)
	if err != nil {
		return nil, err
	}
	next := map[int]int{1: up, 2: down, 3: slots, 4: slots + 1, 5: slots + 2, 6: slots + 3}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m.first, Next: next})
	if err != nil {
		return nil, err
	}
	e, err := d.Compile(m.world, distribute.Options{})
	if err != nil {
		return nil, err
	}
	return func(in []*galley.Tensor) ([]*galley.Tensor, error) {
		for i, x := range in {
			if in[i], err = e.Place(i, x); err != nil {
				return nil, err
			}
		}
		return e.RunSharded(in)
	}, nil
}

// start is the first operands, without the batch.
func (m model) start() []*galley.Tensor {
	in := nn.NewInit(nn.Config{Scope: m.world, Seed: 7})
	w1 := in.Param("up", array.Shape{width, hidden}, nn.Normal(0.2)).Value.Detach()
	w2 := in.Param("down", array.Shape{hidden, classes}, nn.Normal(0.2)).Value.Detach()
	scalar := func(x float64) *galley.Tensor { return op.Full(m.world, array.F32, nil, x) }
	return []*galley.Tensor{w1, w2, op.ZerosLike(w1), op.ZerosLike(w1), op.ZerosLike(w2), op.ZerosLike(w2),
		scalar(0.01), scalar(1)}
}

var (
	inputs  = galley.Type{DType: array.F32, Shape: array.Shape{batch, width}}
	targets = galley.Type{DType: array.I32, Shape: array.Shape{batch}}
)

// load is one batch: inputs for the first mesh, labels for the second, both split over its axis for data.
// Each device makes its own rows only.
func (m model) load(step int) (x, labels *galley.Tensor, err error) {
	if m.first == nil {
		all := mesh.Box{Start: []int{0, 0}, Size: []int{batch, width}}
		return m.world.Tensor(rows(step, all)), m.world.Tensor(answers(step,
			mesh.Box{Start: []int{0}, Size: []int{batch}})), nil
	}
	if x, err = dtensor.FromFunc(m.world, inputs, m.first, func(b mesh.Box) array.Array { return rows(step, b) },
		mesh.Shard(0)); err != nil {
		return nil, nil, err
	}
	labels, err = dtensor.FromFunc(m.world, targets, m.second,
		func(b mesh.Box) array.Array { return answers(step, b) }, mesh.Shard(0))
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

// train runs a few steps and returns their losses.
func (m model) train(run runner) ([]float64, error) {
	state := m.start()
	var losses []float64
	for i := range steps {
		x, labels, err := m.load(i)
		if err != nil {
			return nil, err
		}
		state[count] = op.Full(m.world, array.F32, nil, float64(i+1))
		out, err := run(append(state[:input:input], x, labels))
		if err != nil {
			return nil, err
		}
		loss, err := galley.Read(out[0])
		if err != nil {
			return nil, err
		}
		losses = append(losses, loss.At(0))
		copy(state, out[1:])
	}
	return losses, nil
}
