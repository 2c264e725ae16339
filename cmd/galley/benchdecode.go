package main

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/models"
)

// shapeFlags give the shape of a Llama with random weights.
type shapeFlags struct {
	Layers  int `help:"Layers." default:"22"`
	Dim     int `help:"Width of the stream." default:"2048"`
	Heads   int `help:"Heads." default:"32"`
	KVHeads int `name:"kv-heads" help:"Heads of keys and values." default:"4"`
	FFN     int `name:"ffn" help:"Inner width of an MLP." default:"5632"`
	Vocab   int `help:"Vocabulary." default:"32000"`
}

func (f shapeFlags) config() models.Config {
	return models.Config{Family: "llama", Vocab: f.Vocab, Hidden: f.Dim, Intermediate: f.FFN, Layers: f.Layers,
		Heads: f.Heads, KVHeads: f.KVHeads}
}

// benchDecodeCmd times token generation.
type benchDecodeCmd struct {
	output
	Weights []string `help:"Formats of weights: f32, bf16, int8, int4, or stored, what --model has." enum:"stored,f32,bf16,int8,int4" default:"f32,bf16,int8,int4"`
	Model   string   `help:"Read this Hugging Face directory or GGUF file; without it weights are random and flags say the shape." type:"path" placeholder:"DIR"`
	Write   string   `help:"Write the random model as a Hugging Face directory in bf16, and time nothing." type:"path" placeholder:"DIR"`
	shapeFlags
	Prompt    int     `help:"Tokens before those that are timed." default:"128"`
	Sequences int     `help:"Sequences at once." default:"1"`
	Speculate int     `help:"Time a text that repeats itself with so many guesses and without, in place of memory; 0 does not."`
	Threads   int     `help:"Threads; 0 means all cores."`
	Runs      int     `help:"Timed steps, or with --backend executions of several steps." default:"16"`
	Bandwidth float64 `help:"GB/s at which the accelerator of --backend reads its memory: the share of it that a step reaches is printed." placeholder:"GB/S"`
	engineFlags
}

// Help returns the text that galley bench decode --help adds.
func (benchDecodeCmd) Help() string {
	return `Times a Llama with random weights, of TinyLlama's shape unless flags say otherwise. A step reads
every weight once; reads of memory are timed in turns with the steps, and the share is how much of their speed
a step reaches.

Examples:
  galley bench decode --threads 1
  galley bench decode --write tiny-llama && galley bench decode --model tiny-llama --weights bf16
  galley bench decode --weights bf16 --speculate 4 --runs 64
  galley bench decode --backend xla --weights bf16,int8 --bandwidth 4800
  galley bench decode --layers 4 --weights int8,int4 --sequences 8 --json`
}

func (c *benchDecodeCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "kv-heads": c.KVHeads,
		"ffn": c.FFN, "vocab": c.Vocab, "prompt": c.Prompt, "sequences": c.Sequences, "runs": c.Runs})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "speculate": c.Speculate})
	}
	if err == nil {
		err = between(0, 1e9, map[string]float64{"bandwidth": c.Bandwidth})
	}
	if err != nil {
		return err
	}
	b, err := c.open()
	if err != nil {
		return err
	}
	return closed(b, c.bench(b))
}

// bench runs the benchmark on a backend; nil is the host's CPU.
func (c *benchDecodeCmd) bench(b galley.Backend) error {
	config := bench.DecodeConfig{Model: c.config(), Sequences: c.Sequences, Prompt: c.Prompt, Threads: c.Threads,
		Runs: c.Runs}
	switch {
	case b == nil && c.Bandwidth > 0:
		return errors.New("--bandwidth: it is for --backend: reads of the host's memory are timed")
	case b != nil && (c.Speculate > 0 || c.Write != ""):
		return errors.New("--speculate, --write: they are for --backend=cpu")
	case c.Write != "" && c.Model != "":
		return errors.New("--write, --model: want one of them")
	case c.Speculate > 0 && c.Model != "":
		return errors.New("--speculate, --model: the model is made to repeat itself: want one of them")
	case c.Write != "":
		return bench.WriteModel(c.Write, config.Model)
	case c.Model != "":
		d, err := openModelDir(c.Model, checkpointChoice{})
		if err != nil {
			return err
		}
		defer d.close()
		shape, read, done, err := d.weights()
		if err != nil {
			return err
		}
		defer done()
		config.Model, config.Read, config.Grouped = shape.Config(), read, d.grouped
	}
	for _, w := range c.Weights {
		if config.Weights = w; w == "stored" {
			config.Weights = ""
		}
		r, err := c.result(b, config)
		if err == nil {
			err = c.print(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// result returns the measurement of one format of weights.
func (c *benchDecodeCmd) result(b galley.Backend, config bench.DecodeConfig) (fmt.Stringer, error) {
	switch {
	case b != nil:
		return bench.DecodeOn(b, config, c.Bandwidth)
	case c.Speculate > 0:
		return bench.Speculate(config, c.Speculate)
	}
	return bench.Decode(config)
}
