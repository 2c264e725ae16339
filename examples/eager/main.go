// Command eager trains a small network by the loop that people write: forward, Backward, Step, ClearGrad. It
// does so on one device, on a mesh of four with ZeRO, and in f16 with a scaled loss.
package main

import (
	"fmt"
	"log"
	"math"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func main() {
	host := galley.CPU(galley.Config{})
	defer host.Close()
	w, err := dtensor.NewWorld(host, 4)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	for _, run := range []struct {
		name  string
		train func() ([]float64, error)
	}{
		{"one device", func() ([]float64, error) { return oneDevice(host.NewSession()) }},
		{"mesh of four", func() ([]float64, error) { return onMesh(w) }},
		{"f16", func() ([]float64, error) { return halves(host.NewSession()) }},
	} {
		losses, err := run.train()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-12s %.4f\n", run.name, losses)
	}
}

// oneDevice returns the loop.
func oneDevice(s *galley.Session) (losses []float64, err error) {
	in := nn.NewInit(nn.Config{Scope: s, Seed: 7})
	net := nn.Sequential{nn.NewLinear(in.At("up"), 8, 16), nn.Func(op.Tanh), nn.NewLinear(in.At("down"), 16, 1)}
	opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{WeightDecay: 0.1}, eager.Config{
		Schedule: optim.Cosine{LR: 0.05, Steps: 20}, ClipNorm: 1})
	if err != nil {
		return nil, err
	}
	for step := range 5 {
		x, y := batch(step)
		loss := op.MSELoss(net.Forward(s.Tensor(x)), s.Tensor(y), "mean")
		if err := loss.Backward(); err != nil {
			return nil, err
		}
		if err := opt.Step(); err != nil {
			return nil, err
		}
		opt.ClearGrad()
		losses = append(losses, value(loss))
	}
	return losses, nil
}

// onMesh returns the same on four devices: rows over dp, the first matrix by columns and the second by rows
// over tp, the optimizer's memory and gradients over dp. Two passes of half a batch make a step.
func onMesh(w *dtensor.World) (losses []float64, err error) {
	m, err := mesh.Parse("dp=2,tp=2")
	if err != nil {
		return nil, err
	}
	in := nn.NewInit(nn.Config{Scope: w, Seed: 7})
	net := nn.Sequential{nn.NewLinear(in.At("up"), 8, 16), nn.Func(op.Tanh), nn.NewLinear(in.At("down"), 16, 1)}
	places := map[string][]mesh.Placement{"up.weight": {mesh.Replicate(), mesh.Shard(0)},
		"up.bias": {mesh.Replicate(), mesh.Shard(0)}, "down.weight": {mesh.Replicate(), mesh.Shard(1)}}
	rule := func(name string, _ op.Type) []mesh.Placement { return places[name] }
	if err := dtensor.ShardLayer(in.Params(), m, rule); err != nil {
		return nil, err
	}
	sharded, err := galley.ShardOptimizer(&galley.Optimizer{Optimizer: optim.AdamW{WeightDecay: 0.1},
		Schedule: optim.Cosine{LR: 0.05, Steps: 20}, ClipNorm: 1}, optim.ShardingStage2{Axis: "dp"})
	if err != nil {
		return nil, err
	}
	opt, err := eager.NewOptimizer(in.Params(), sharded, eager.Config{})
	if err != nil {
		return nil, err
	}
	for step := range 5 {
		x, y := batch(step)
		total := 0.0
		for half := range 2 {
			rows := func(a array.Array) *op.Tensor {
				return dtensor.Shard(w.Tensor(a.Rows(half*4, half*4+4)), m, mesh.Shard(0))
			}
			loss := op.MulScalar(op.MSELoss(net.Forward(rows(x)), rows(y), "mean"), 0.5)
			if err := loss.Backward(); err != nil {
				return nil, err
			}
			total += value(loss)
		}
		if err := opt.Step(); err != nil {
			return nil, err
		}
		opt.ClearGrad()
		losses = append(losses, total)
	}
	return losses, nil
}

// halves computes products in f16. The scale keeps small gradients from vanishing.
func halves(s *galley.Session) (losses []float64, err error) {
	in := nn.NewInit(nn.Config{Scope: s, Seed: 7})
	net := nn.Sequential{nn.NewLinear(in.At("up"), 8, 16), nn.Func(op.Tanh), nn.NewLinear(in.At("down"), 16, 1)}
	opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{WeightDecay: 0.1}, eager.Config{
		Schedule: optim.Cosine{LR: 0.05, Steps: 20}, ClipNorm: 1})
	if err != nil {
		return nil, err
	}
	scaler := eager.NewScaler()
	for step := range 5 {
		x, y := batch(step)
		loss := s.Autocast(array.F16, func() *op.Tensor {
			return op.MSELoss(net.Forward(s.Tensor(x)), s.Tensor(y), "mean")
		})
		if err := scaler.Scale(loss).Backward(); err != nil {
			return nil, err
		}
		if _, err := scaler.Step(opt); err != nil {
			return nil, err
		}
		opt.ClearGrad()
		losses = append(losses, value(loss))
	}
	return losses, nil
}

// batch returns eight rows and what is to be learned of them.
func batch(step int) (x, y array.Array) {
	x, y = array.New(array.F32, 8, 8), array.New(array.F32, 8, 1)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(step*64+i)))
	}
	for i := range y.Len() {
		y.Set(i, x.At(i*8)*x.At(i*8+1))
	}
	return x, y
}

// value returns the number in a scalar, NaN where it was a mistake, which Backward has told by then.
func value(x *op.Tensor) float64 {
	a, err := galley.Read(x)
	if err != nil {
		return math.NaN()
	}
	return a.At(0)
}
