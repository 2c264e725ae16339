// Command engine trains a small language model on bytes of a novel: first on one device, then on eight, going
// on from the checkpoint of the first run.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

func main() {
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(dir); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	train, valid, err := loaders()
	if err != nil {
		return err
	}
	for _, r := range []struct {
		strategy galley.Strategy
		steps    int
	}{
		{galley.Strategy{}, 10},
		{galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 4, Zero: 1}, 20},
	} {
		fmt.Println("on", r.strategy)
		config := galley.FitConfig{Steps: r.steps, Valid: valid, ValidEvery: 10, SaveDir: dir, SaveEvery: 10,
			Resume: true}
		if err := continueOn(&r.strategy, train, config); err != nil {
			return err
		}
	}
	return nil
}

// continueOn trains on the devices of a strategy, from the newest checkpoint on.
func continueOn(s *galley.Strategy, train galley.Loader, c galley.FitConfig) error {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	m, err := models.New(models.Config{Family: "llama", Vocab: 128, Hidden: 32, Intermediate: 64, Layers: 4,
		Heads: 4}, nn.Config{Scope: d.NewSession(), Seed: 1})
	if err != nil {
		return err
	}
	e, err := galley.NewEngine(galley.EngineConfig{
		Model: galley.Language(m), Strategy: s,
		Optimizer: optim.AdamW{WeightDecay: 0.1}, Schedule: optim.Constant{LR: 1e-2}, ClipNorm: 1,
		Metrics: []galley.Metric{galley.Accuracy()}, Callbacks: []fit.Callback{report{}},
	})
	if err != nil {
		return err
	}
	defer e.Close()
	tokens := galley.Type{DType: array.I32, Shape: array.Shape{batch, seq}}
	cost, err := e.Prepare(galley.Training, tokens, tokens) // inputs and labels
	if err != nil {
		return err
	}
	if err := cost.Write(os.Stderr); err != nil {
		return err
	}
	_, err = e.Fit(context.Background(), train, c)
	return err
}

const batch, seq = 8, 32

// loaders deal out windows of the novel's bytes, of which the last tenth is held out.
func loaders() (train, valid galley.Loader, err error) {
	var ids []int32
	for _, b := range []byte(data.MobyDick()) {
		ids = append(ids, int32(b&127))
	}
	first, held, err := data.Split(ids, 0.9)
	if err != nil {
		return nil, nil, err
	}
	if train, err = loader(first); err != nil {
		return nil, nil, err
	}
	valid, err = loader(held[:batch*seq*2+1])
	return train, valid, err
}

func loader(ids []int32) (galley.Loader, error) {
	s, err := data.NewSampler(ids, data.SamplerConfig{Batch: batch, Seq: seq, Seed: 1})
	if err != nil {
		return nil, err
	}
	return data.Tokens(s), nil
}

// report prints what a fit does.
type report struct{ fit.CallbackBase }

func (report) OnStep(p *fit.Progress) error {
	if p.Step%5 == 0 {
		fmt.Printf("step %2d  loss %.2f\n", p.Step, p.Metrics.Loss)
	}
	return nil
}

func (report) OnEvaluate(p *fit.Progress) error {
	fmt.Printf("step %2d  held out: loss %.2f, accuracy %.2f\n", p.Step, p.Evaluation.Loss,
		p.Evaluation.Values[0].Value)
	return nil
}
