package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// generateCmd continues a text.
type generateCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model, or directory of a run's checkpoints." type:"existingdir"`
	checkpointChoice
	Prompt      string  `help:"Text to continue." default:"Call me "`
	Tokenizer   string  `help:"tokenizer.json; without it that of the directory, or bytes." type:"existingfile" placeholder:"FILE"`
	Tokens      int     `help:"Tokens to generate." default:"200"`
	Temperature float64 `help:"How freely to choose; 0 takes the most likely token." default:"0.8"`
	TopK        int     `help:"Choose among this many; 0 is all." default:"40"`
	TopP        float64 `help:"Choose among the likeliest that make up this probability; 0 or 1 is all." default:"0"`
	Seed        uint64  `help:"Seed of the choices." default:"1"`
	Threads     int     `help:"Threads; 0 means all cores."`
}

// Help is what galley generate --help adds.
func (generateCmd) Help() string {
	return `Examples:
  galley generate out --prompt "Call me" --tokens 100
  galley generate llama-3-8b --temperature 0              always the likeliest token: the same text each time
  galley generate llama-3-8b --top-p 0.9 --top-k 0        draw among the likeliest that make up nine tenths
Generation ends early at an eos_token_id of config.json.`
}

func (c *generateCmd) Run() error {
	if err := c.validate(); err != nil {
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
	if err := fits(c.Dir, 4*parameters(config)); err != nil {
		return err
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	model, err := m.load(nn.Config{Scope: d.NewSession()})
	if err != nil {
		return err
	}
	t.note(m.dir, config.Vocab)
	return speak(model, t, c.Prompt, models.GenerateConfig{
		Tokens: c.Tokens, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP, Seed: c.Seed, Stop: config.StopTokens(),
	})
}

func (c *generateCmd) validate() error {
	err := positive(map[string]int{"tokens": c.Tokens})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "top-k": c.TopK})
	}
	if err == nil {
		err = between(0, math.Inf(1), map[string]float64{"temperature": c.Temperature})
	}
	if err == nil {
		err = between(0, 1, map[string]float64{"top-p": c.TopP})
	}
	return err
}

// speak prints a prompt and what the model makes of it, token by token.
func speak(model models.Model, t textTokenizer, prompt string, c models.GenerateConfig) error {
	ids, err := t.prompt(prompt, model.Config().Vocab)
	if err != nil {
		return err
	}
	fmt.Print(prompt)
	began, n := time.Now(), 0
	for id, err := range models.Generate(model, ids, c) {
		if err != nil {
			fmt.Println()
			return err
		}
		n++
		if !slices.Contains(c.Stop, id) {
			fmt.Print(t.Decode([]int32{id}))
		}
	}
	fmt.Printf("\n\n%d tokens, %.0f tokens/s\n", n, float64(n)/time.Since(began).Seconds())
	return nil
}
