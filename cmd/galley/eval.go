package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// evalCmd tells how well a model predicts a text.
type evalCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, its GGUF file, or directory of a run's checkpoints." type:"path"`
	checkpointChoice
	Data      string `help:"Text file; without it the chapters of Moby-Dick that galley train holds out." type:"existingfile" placeholder:"FILE"`
	Tokenizer string `help:"tokenizer.json; without it that of the model, or bytes." type:"existingfile" placeholder:"FILE"`
	Batch     int    `help:"Sequences at a time." default:"16"`
	Seq       int    `help:"Tokens in a sequence." default:"128"`
	Batches   int    `help:"Batches to read; 0 is all of the text." default:"0"`
	Threads   int    `help:"Threads; 0 means all cores."`
	Against   string `help:"Compare with this model, of which the first is another form: its perplexity, the divergence from it, equal first choices." type:"path" placeholder:"DIR"`
	Weights   string `help:"With --against: keep the first model's weights as f32, bf16, int8 or int4." enum:",f32,bf16,int8,int4" default:"" placeholder:"FORMAT"`
}

// Help is what galley eval --help adds.
func (evalCmd) Help() string {
	return `Prints the mean loss of a token, in nats, and the perplexity, e to its power. The text is read in windows of --seq tokens, each of which begins
without a past.

Examples:
  galley eval out --data notes.txt
  galley eval small --against out        what integers change: perplexities, divergence, equal first choices
  galley eval run --best                 the best checkpoint of a run, on the held-out part of the book`
}

func (c *evalCmd) Run() error {
	err := positive(map[string]int{"batch": c.Batch, "seq": c.Seq})
	if err == nil {
		err = natural(map[string]int{"batches": c.Batches, "threads": c.Threads})
	}
	if err == nil && c.Weights != "" && c.Against == "" {
		err = fmt.Errorf("--weights=%s: it is for --against", c.Weights)
	}
	if err != nil {
		return err
	}
	m, err := openModelDir(c.Dir, c.checkpointChoice)
	if err != nil {
		return err
	}
	defer m.close()
	config, err := m.config()
	if err != nil {
		return err
	}
	if err := longEnough(config, c.Seq); err != nil {
		return err
	}
	windows, source, err := c.windows(m, config)
	if err != nil {
		return err
	}
	if err := fits(c.Dir,
		4*parameters(config)+4*float64(c.Batch)*float64(c.Seq)*float64(config.Vocab)); err != nil {
		return err
	}
	if c.Against != "" {
		return c.compare(m, windows, source)
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	model, err := m.load(nn.Config{Scope: d.NewSession()})
	if err != nil {
		return err
	}
	loss, err := meanLoss(d, model, windows)
	if err != nil {
		return err
	}
	tokens := 0
	for _, w := range windows {
		tokens += w.Shape()[0] * c.Seq
	}
	fmt.Printf("%s on %s (%d tokens): loss %.4f, perplexity %.4g\n", m.name(), source, tokens, loss,
		math.Exp(loss))
	return nil
}

// windows is the text's batches: every window once, the last batch with those that are left.
func (c *evalCmd) windows(m *modelDir, config models.Config) ([]array.Array, string, error) {
	t, err := openTokenizer(c.Tokenizer, m.dir)
	if err != nil {
		return nil, "", err
	}
	text, source := data.MobyDick(), "the held-out part of Moby-Dick"
	if c.Data != "" {
		b, err := os.ReadFile(c.Data)
		if err != nil {
			return nil, "", err
		}
		text, source = string(b), c.Data
	}
	ids := t.Encode(text)
	if c.Data == "" {
		if _, ids, err = data.Split(ids, heldFrom); err != nil {
			return nil, "", err
		}
	}
	if err := inVocabulary(ids, config.Vocab); err != nil {
		return nil, "", fmt.Errorf("%s: %w", source, err)
	}
	t.note(m.dir, config.Vocab)
	var list []array.Array
	for rest := ids; len(rest) > c.Seq && (c.Batches == 0 || len(list) < c.Batches); {
		s, err := data.NewSampler(rest, data.SamplerConfig{Batch: min(c.Batch, (len(rest)-1)/c.Seq),
			Seq: c.Seq, Order: data.Sequential})
		if err != nil {
			return nil, "", err
		}
		b := s.Batch(0)
		list, rest = append(list, b), rest[b.Shape()[0]*c.Seq:]
	}
	if len(list) == 0 {
		return nil, "", fmt.Errorf("%s: text is shorter than a window: got %d tokens, want more than --seq=%d",
			source, len(ids), c.Seq)
	}
	return list, source, nil
}

// meanLoss is the mean loss of a token over batches of windows.
func meanLoss(d *galley.Device, model models.Model, windows []array.Array) (float64, error) {
	trainer, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: model.Params(),
		Optimizer: optim.SGD{},
		Loss:      func(batch []*op.Tensor) *op.Tensor { return nextToken(model, batch[0]) }})
	if err != nil {
		return 0, err
	}
	defer trainer.Close()
	v := trainer.NewEvaluator()
	defer v.Close()
	tell := telling()
	return v.Mean(context.Background(), func(i int) []array.Array {
		if i == len(windows) {
			return nil
		}
		tell("evaluating", i, len(windows))
		return []array.Array{windows[i]}
	})
}
