package main

import (
	"fmt"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// generateCmd continues a text.
type generateCmd struct {
	Dir         string  `arg:"" help:"Hugging Face directory of the model." type:"existingdir"`
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
  galley generate llama-3-8b --temperature 0`
}

func (c *generateCmd) Run() error {
	if err := positive(map[string]int{"tokens": c.Tokens}); err != nil {
		return err
	}
	tokenizer, err := openTokenizer(c.Tokenizer, c.Dir)
	if err != nil {
		return err
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	model, err := models.Load(c.Dir, nn.Config{Scope: d.NewSession()})
	if err != nil {
		return err
	}
	return speak(model, tokenizer, c.Prompt, models.GenerateConfig{
		Tokens: c.Tokens, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP, Seed: c.Seed,
	})
}

// speak prints a prompt and what the model makes of it, token by token.
func speak(model models.Model, tokenizer data.Tokenizer, prompt string, c models.GenerateConfig) error {
	ids := tokenizer.Encode(prompt)
	if len(ids) == 0 {
		return fmt.Errorf("prompt %q has no tokens", prompt)
	}
	if err := inVocabulary(ids, model.Config().Vocab); err != nil {
		return err
	}
	start := make([]int, len(ids))
	for i, id := range ids {
		start[i] = int(id)
	}
	fmt.Print(prompt)
	began, n := time.Now(), 0
	for id, err := range models.Generate(model, start, c) {
		if err != nil {
			fmt.Println()
			return err
		}
		n++
		fmt.Print(tokenizer.Decode([]int32{int32(id)}))
	}
	fmt.Printf("\n\n%d tokens, %.0f tokens/s\n", n, float64(n)/time.Since(began).Seconds())
	return nil
}
