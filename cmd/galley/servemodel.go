package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/serve"
	"github.com/galley-ml/galley/serve/engine"
	"github.com/galley-ml/galley/tokenizer"
)

// models loads all models that are to be served.
func (c *serveCmd) models() ([]*serve.Model, error) {
	var all []*serve.Model
	for i, dir := range c.Dirs {
		m, err := c.model(dir, c.nameOf(i))
		if err != nil {
			for _, other := range all {
				other.Engine.Close()
			}
			return nil, err
		}
		all = append(all, m)
	}
	if err := c.adapt(all); err != nil {
		for _, m := range all {
			m.Engine.Close()
		}
		return nil, err
	}
	return all, nil
}

// adapt loads the adapters of --lora, each for the first model that it fits.
func (c *serveCmd) adapt(all []*serve.Model) error {
	for _, name := range slices.Sorted(maps.Keys(c.Lora)) {
		var err error
		for _, m := range all {
			if m.Name == name {
				return fmt.Errorf("--lora=%s: a model is called so: want another name", name)
			}
			if err = m.Engine.LoadAdapter(name, c.Lora[name]); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("--lora=%s=%s: %w", name, c.Lora[name], err)
		}
	}
	return nil
}

// model loads one model.
func (c *serveCmd) model(dir, name string) (*serve.Model, error) {
	d, err := openModelDir(dir, c.checkpointChoice)
	if err != nil {
		return nil, err
	}
	defer d.close()
	config, err := d.config()
	if err != nil {
		return nil, err
	}
	t, err := openTokenizer(c.Tokenizer, d.dir)
	if err != nil {
		return nil, err
	}
	if t.text != nil && t.VocabSize() > config.Vocab {
		return nil, fmt.Errorf(
			"%s: its tokenizer has %d tokens, the model %d: give the model's own --tokenizer",
			dir,
			t.VocabSize(),
			config.Vocab,
		)
	}
	t.note(d.dir, config.Vocab)
	m := &serve.Model{Name: name, Text: t, Created: time.Now()}
	if full, ok := t.Tokenizer.(*tokenizer.Tokenizer); ok {
		m.Plain, m.Special = full.WithoutSpecial(), full.IsSpecial
	}
	generation, err := c.conversation(m, d.dir)
	if err != nil {
		return nil, err
	}
	m.Defaults = generation.Apply(engine.Sampling{Temperature: 1})
	m.Stop = generation.StopTokens(config.StopTokens())
	if err := c.start(m, d, config, shown(t)); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// conversation reads a model's chat template and its generation config; a GGUF file has only the
// template.
func (c *serveCmd) conversation(m *serve.Model, dir string) (g serve.GenerationConfig, err error) {
	if !models.IsGGUF(dir) {
		if m.Chat, err = serve.ReadChatTemplate(dir, c.ChatTemplate); err != nil {
			return g, err
		}
		return serve.ReadGenerationConfig(dir)
	}
	text, tokens, err := models.GGUFChatTemplate(dir)
	if c.ChatTemplate != "" && err == nil {
		var own []byte
		own, err = os.ReadFile(c.ChatTemplate)
		text = string(own)
	}
	if err == nil && text != "" {
		m.Chat, err = serve.NewChatTemplate(text, tokens)
	}
	return g, err
}

// shown returns the function that decodes tokens to text for clients: without special tokens.
func shown(t textTokenizer) func([]int32) string {
	if full, ok := t.Tokenizer.(*tokenizer.Tokenizer); ok {
		return full.DecodeText
	}
	return t.Decode
}

// start packs the model's weights and starts its engine.
func (c *serveCmd) start(
	m *serve.Model,
	d *modelDir,
	config models.Config,
	decode func([]int32) string,
) error {
	if c.backend == nil {
		if err := fits(m.Name, d.bytesAs(c.Weights, config)); err != nil {
			return err
		}
	}
	shape, read, done, err := d.weights()
	if err != nil {
		return err
	}
	defer done()
	e := engine.Config{Weights: c.Weights, Read: read, Grouped: d.grouped, Threads: c.Threads, Decode: decode,
		Context: c.Context,
		Memory: int64(
			c.CacheMb,
		) << 20, Running: c.Running, Waiting: c.Waiting, Budget: c.Budget, Observe: m.Observe,
		Speculate: c.Speculate, TP: c.TP, KV: c.KvCache, Backend: c.backend}
	if c.Context == 0 {
		e.Longest = config.Positions
	}
	draft, closeDraft, err := openDraft(c.Draft)
	if err != nil {
		return err
	}
	defer closeDraft()
	e.Draft = draft
	m.Engine, err = engine.New(shape, e)
	return err
}
