// Finetune reads a model from a Hugging Face directory, trains it on a text, saves it, reads it again and
// lets it speak. The directory is a small one that the program makes itself; give it another to train that.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func main() {
	dir, err := os.MkdirTemp("", "finetune")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	d := galley.CPU(galley.Config{})
	defer d.Close()
	first, tuned := filepath.Join(dir, "first"), filepath.Join(dir, "tuned")
	for _, step := range []func() error{
		func() error { return create(d, first) },
		func() error { return tune(d, first, tuned) },
		func() error { return speak(d, tuned) },
	} {
		if err := step(); err != nil {
			log.Print(err)
			return
		}
	}
}

// create writes a small model with random weights: what a download would be.
func create(d *galley.Device, dir string) error {
	config := models.Config{Family: "llama", Vocab: 256, Hidden: 64, Intermediate: 160, Layers: 2, Heads: 4,
		KVHeads: 2, Tied: true}
	m, err := models.New(config, nn.Config{Scope: d.NewSession(), Seed: 1})
	if err != nil {
		return err
	}
	return models.Save(dir, m, models.SaveConfig{})
}

const text = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the " +
	"age of foolishness. "

// tune trains the model of a directory on text and writes it to another.
func tune(d *galley.Device, from, to string) error {
	m, err := models.Load(from, nn.Config{Scope: d.NewSession()})
	if err != nil {
		return err
	}
	windows, err := data.NewSampler(data.Bytes{}.Encode(strings.Repeat(text, 20)),
		data.SamplerConfig{Batch: 4, Seq: 64, Seed: 1})
	if err != nil {
		return err
	}
	const steps = 120
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: m.Params(), ClipNorm: 1,
		Optimizer: optim.AdamW{Beta1: 0.9, Beta2: 0.95, WeightDecay: 0.1},
		Schedule:  optim.Cosine{LR: 0.005, Final: 0.001, Warmup: 10, Steps: steps},
		// A window holds one token more than the model sees: each token's label is the next.
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			n := batch[0].Dim(1)
			return m.Loss(op.Narrow(batch[0], 1, 0, n-1), op.Narrow(batch[0], 1, 1, n))
		},
	})
	if err != nil {
		return err
	}
	var begin, end float64
	for i := range steps {
		s, err := t.Step(windows.Batch(i))
		if err != nil {
			return err
		}
		if end = s.Loss; i == 0 {
			begin = s.Loss
		}
	}
	fmt.Printf("loss %.1f at first; below 0.1 after %d steps: %v\n", begin, steps, end < 0.1)
	return models.Save(to, m, models.SaveConfig{})
}

// speak continues a text with the model of a directory.
func speak(d *galley.Device, dir string) error {
	m, err := models.Load(dir, nn.Config{Scope: d.NewSession(), Frozen: true})
	if err != nil {
		return err
	}
	prompt := data.Bytes{}.Encode("It was the best")
	var out []int32
	for id, err := range models.Generate(m, prompt, models.GenerateConfig{Tokens: 40}) {
		if err != nil {
			return err
		}
		out = append(out, id)
	}
	fmt.Printf("It was the best%s\n", data.Bytes{}.Decode(out))
	return nil
}
