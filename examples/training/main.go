// Command training trains one model five times, from one device to a mix of all strategies: the programs of
// docs/training.md. The losses are the same each time.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/parallel"
)

// optimizer returns AdamW with its learning rate and the limit on gradients.
func optimizer() *galley.Optimizer {
	return &galley.Optimizer{Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2},
		ClipNorm: 1}
}

// oneDevice returns the model as it is written.
func oneDevice(model galley.Model, batches galley.Loader) (*galley.DistModel, error) {
	return galley.ToStatic(model, batches, galley.CrossEntropy, optimizer(), nil)
}

// dataParallel gives each of two devices half of a batch, and half of the optimizer's memory.
func dataParallel(model galley.Model, batches galley.Loader) (*galley.DistModel, error) {
	sharded, err := galley.ShardOptimizer(optimizer(), optim.ShardingStage1{Axis: "dp"})
	if err != nil {
		return nil, err
	}
	return galley.ToStatic(model, batches, galley.CrossEntropy, sharded, &galley.Strategy{DP: 2})
}

// tensorParallel splits the matrices of each layer over two devices, by the layers' names.
func tensorParallel(model galley.Model, batches galley.Loader) (*galley.DistModel, error) {
	planned, err := galley.Parallelize(model, optimizer(), parallel.Plan{
		Strategy: galley.Strategy{TP: 2},
		Layers: []parallel.LayerPlan{
			parallel.On("model.embed_tokens", parallel.RowWise{}),
			parallel.On("*.self_attn.[qkv]_proj", parallel.ColWise{}),
			parallel.On("*.self_attn.o_proj", parallel.RowWise{}),
			parallel.On("*.mlp.gate_proj", parallel.ColWise{}),
			parallel.On("*.mlp.up_proj", parallel.ColWise{}),
			parallel.On("*.mlp.down_proj", parallel.RowWise{}),
			parallel.On("lm_head", parallel.ColWise{}),
		},
	})
	if err != nil {
		return nil, err
	}
	return galley.ToStatic(planned, batches, galley.CrossEntropy, planned.Optimizer, nil)
}

// pipelined cuts the layers into two stages, and batches into four micro-batches.
func pipelined(model galley.Model, batches galley.Loader) (*galley.DistModel, error) {
	s := &galley.Strategy{PP: 2, Micro: 4, Schedule: "zbh1", Recompute: "selective"}
	return galley.ToStatic(model, batches, galley.CrossEntropy, optimizer(), s)
}

// hybrid mixes them, on eight devices, and lets an engine do the rest.
func hybrid(model galley.Model, batches galley.Loader) (*galley.History, error) {
	e, err := galley.NewEngine(galley.EngineConfig{
		Model: model, Loss: galley.CrossEntropy, Optimizer: optimizer(),
		Metrics:  []galley.Metric{galley.Accuracy()},
		Strategy: &galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4, Zero: 3},
	})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	return e.Fit(context.Background(), batches, galley.FitConfig{Steps: steps, Valid: batches, ValidBatches: 2})
}

const steps = 4

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	for _, way := range []struct {
		name  string
		build func(galley.Model, galley.Loader) (*galley.DistModel, error)
	}{{"one device", oneDevice}, {"data parallel", dataParallel}, {"tensor parallel",
		tensorParallel}, {"pipelined", pipelined}} {
		d := galley.CPU(galley.Config{})
		defer d.Close()
		model, batches, err := start(d)
		if err != nil {
			return err
		}
		static, err := way.build(model, batches)
		if err != nil {
			return err
		}
		defer static.Close()
		losses, err := train(static, batches)
		if err != nil {
			return err
		}
		show(way.name, losses)
	}
	d := galley.CPU(galley.Config{})
	defer d.Close()
	model, batches, err := start(d)
	if err != nil {
		return err
	}
	history, err := hybrid(model, batches)
	if err != nil {
		return err
	}
	show("hybrid", history.Losses())
	v := history.Evaluations[0]
	fmt.Printf("after %d steps: loss %.4f, accuracy %.2f\n", v.Step, v.Loss, v.Values[0].Value)
	return nil
}

// start makes the model, which knows nothing of devices, and its batches.
func start(d *galley.Device) (galley.Model, galley.Loader, error) {
	m, err := models.New(models.Config{Family: "llama", Vocab: 128, Hidden: 16, Intermediate: 32, Layers: 4,
		Heads: 4},
		nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	if err != nil {
		return nil, nil, err
	}
	var ids []int32
	for _, b := range []byte(data.MobyDick()[:4000]) {
		ids = append(ids, int32(b&127))
	}
	s, err := data.NewSampler(ids, data.SamplerConfig{Batch: 8, Seq: 16, Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	return galley.Language(m), data.Tokens(s), nil
}

// train runs a few steps.
func train(static *galley.DistModel, batches galley.Loader) (losses []float64, err error) {
	for i := range steps {
		batch, err := batches.Batch(i)
		if err != nil {
			return nil, err
		}
		r, err := static.Run(context.Background(), batch...)
		if err != nil {
			return nil, err
		}
		losses = append(losses, r.Loss)
	}
	return losses, nil
}

func show(name string, losses []float64) {
	fmt.Printf("%-16s", name)
	for _, l := range losses {
		fmt.Printf(" %.6f", l)
	}
	fmt.Println()
}
