package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/serve/engine"
)

// generateCmd generates a continuation of a prompt.
type generateCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, its GGUF file, or directory of a run's checkpoints." type:"path"`
	checkpointChoice
	Prompt            string   `help:"Text to continue." default:"Call me "`
	Tokenizer         string   `help:"tokenizer.json; without it that of the directory, or bytes." type:"existingfile" placeholder:"FILE"`
	Tokens            int      `help:"Tokens to generate." default:"200"`
	Temperature       float64  `help:"Temperature of sampling; 0 takes the most likely token." default:"0.8"`
	TopK              int      `help:"Sample among this many of the most likely tokens; 0 is all." default:"40"`
	TopP              float64  `help:"Sample among the most likely tokens that together have this probability; 0 or 1 is all." default:"0"`
	MinP              float64  `help:"Leave out tokens with less than this share of the most likely token's probability." default:"0"`
	Seed              uint64   `help:"Seed of the sampling." default:"1"`
	Stop              []string `help:"End before this text; may be given several times." sep:"none" placeholder:"TEXT"`
	RepetitionPenalty float64  `help:"Penalty of tokens that were seen before: their logits are divided by it, negative ones multiplied." default:"1"`
	Weights           string   `help:"Keep weights as f32, bf16, int8 or int4; without it as the model has them." enum:",f32,bf16,int8,int4" default:"" placeholder:"FORMAT"`
	Draft             string   `help:"Smaller model of the same vocabulary that guesses --speculate tokens, or 4, for the model to check." type:"path" placeholder:"DIR"`
	Speculate         int      `help:"Tokens to guess from the text's own repetitions, or with --draft, and compute with the next one; 0 is none."`
	KvCache           string   `help:"Keep keys and values as f32, bf16 or int8 with a scale for each head." enum:"f32,bf16,int8" default:"f32"`
	Threads           int      `help:"Threads; 0 means all cores."`
	TP                int      `name:"tp" help:"Devices of this process over which heads and matrices are split; they share the threads." default:"1"`
	engineFlags
}

// Help returns the text that galley generate --help adds.
func (generateCmd) Help() string {
	return `Examples:
  galley generate out --prompt "Call me" --tokens 100
  galley generate llama-3-8b --temperature 0              always the likeliest token: the same text each time
  galley generate llama-3-8b --top-p 0.9 --top-k 0        draw among the likeliest that make up nine tenths
  galley generate llama-3-8b --prompt "Q: " --stop "\nQ:" --weights bf16
  galley generate llama-3-8b --weights int4               a quarter of the memory of bf16, and faster
  galley generate llama-3-8b --draft llama-3-1b           the same text, sooner where guesses are good
  galley generate llama-3-8b --tp 2                       the same tokens, computed by two devices
  galley generate llama-3-8b --backend xla --weights bf16 on an accelerator
Generation ends early at an eos_token_id of config.json.`
}

func (c *generateCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	b, err := c.open()
	if err != nil {
		return err
	}
	return closed(b, c.generate(b))
}

// generate runs the command on a backend; nil is the host's CPU.
func (c *generateCmd) generate(b galley.Backend) error {
	m, err := openModelDir(c.Dir, c.checkpointChoice)
	if err != nil {
		return err
	}
	defer m.close()
	config, err := m.config()
	if err != nil {
		return err
	}
	t, err := openTokenizer(c.Tokenizer, m.dir)
	if err != nil {
		return err
	}
	ids, err := t.prompt(c.Prompt, config.Vocab)
	if err != nil {
		return err
	}
	if n := config.Limit(); n > 0 && len(ids)+c.Tokens > n {
		return fmt.Errorf("--tokens=%d: %d with the prompt's are more than the model's n_positions %d", c.Tokens,
			len(ids)+c.Tokens, n)
	}
	if b == nil {
		err = fits(c.Dir, m.bytesAs(c.Weights, config))
	}
	if err != nil {
		return err
	}
	t.note(m.dir, config.Vocab)
	ask := question{prompt: c.Prompt, ids: ids, Request: engine.Request{Prompt: ids, Tokens: c.Tokens,
		Stop: config.StopTokens(), StopText: c.Stop,
		Sampling: engine.Sampling{Temperature: c.Temperature, TopK: c.TopK,
			TopP: c.TopP, MinP: c.MinP, Repetition: c.RepetitionPenalty, Seed: c.Seed}}}
	if !served(config) {
		return c.generateByOps(m, t, ask)
	}
	shape, read, done, err := m.weights()
	if err != nil {
		return err
	}
	defer done()
	draft, closeDraft, err := openDraft(c.Draft)
	if err != nil {
		return err
	}
	defer closeDraft()
	return generateText(shape, t, ask, engine.Config{Draft: draft, Speculate: c.Speculate, Threads: c.Threads,
		Weights: c.Weights, Read: read, Grouped: m.grouped, TP: c.TP, KV: c.KvCache, Backend: b})
}

// generateByOps generates text with models that the serving engine does not support.
func (c *generateCmd) generateByOps(m *modelDir, t textTokenizer, q question) error {
	if len(c.Stop) > 0 || c.MinP != 0 || c.RepetitionPenalty != 1 || c.Weights != "" || c.TP > 1 ||
		c.KvCache != "f32" ||
		c.Draft != "" ||
		c.Speculate > 0 || c.Backend != "cpu" {
		return errors.New(
			"--stop, --min-p, --repetition-penalty, --weights, --tp, --kv-cache, --draft, --speculate, --backend: " +
				"they are for transformers: this model keeps a state in place of keys and values",
		)
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	model, err := m.load(nn.Config{Scope: d.NewSession()})
	if err != nil {
		return err
	}
	return generateByOps(model, t, q)
}

func (c *generateCmd) validate() error {
	err := positive(map[string]int{"tokens": c.Tokens, "tp": c.TP})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "top-k": c.TopK, "speculate": c.Speculate})
	}
	if err == nil {
		err = between(0, math.Inf(1), map[string]float64{"temperature": c.Temperature})
	}
	if err == nil {
		err = between(0, 1, map[string]float64{"top-p": c.TopP, "min-p": c.MinP})
	}
	if err == nil && !(c.RepetitionPenalty > 0) {
		err = fmt.Errorf("--repetition-penalty=%v: want a positive number", c.RepetitionPenalty)
	}
	return err
}

// question is a prompt and the settings of its generation.
type question struct {
	prompt string
	ids    []int32
	engine.Request
}

// served reports whether the serving engine supports models of a configuration.
func served(c models.Config) bool {
	m, err := models.New(c, nn.Config{})
	if err != nil {
		return false
	}
	_, err = models.PartsOf(m)
	return err == nil
}

// generateText prints a prompt and its continuation by the serving engine, token by token.
func generateText(model models.Model, t textTokenizer, q question, c engine.Config) error {
	c.Decode, c.Running, c.Budget = t.Decode, 1, min(len(q.ids), 256)
	c.Pages = (len(q.ids)+q.Tokens)/16 + 1
	e, err := engine.New(model, c)
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Print(q.prompt)
	began, n := time.Now(), 0
	for token, err := range e.Generate(context.Background(), q.Request) {
		if err != nil {
			fmt.Println()
			return err
		}
		n++
		fmt.Print(token.Text)
	}
	fmt.Printf("\n\n%d tokens, %.0f tokens/s\n", n, float64(n)/time.Since(began).Seconds())
	return nil
}

// generateByOps prints a prompt and its continuation by the model's own ops, token by token.
func generateByOps(model models.Model, t textTokenizer, q question) error {
	fmt.Print(q.prompt)
	began, n := time.Now(), 0
	for id, err := range models.Generate(model, q.ids, models.GenerateConfig{
		Tokens: q.Tokens, Temperature: q.Sampling.Temperature, TopK: q.Sampling.TopK, TopP: q.Sampling.TopP,
		Seed: q.Sampling.Seed, Stop: q.Stop,
	}) {
		if err != nil {
			fmt.Println()
			return err
		}
		n++
		if !slices.Contains(q.Stop, id) {
			fmt.Print(t.Decode([]int32{id}))
		}
	}
	fmt.Printf("\n\n%d tokens, %.0f tokens/s\n", n, float64(n)/time.Since(began).Seconds())
	return nil
}
