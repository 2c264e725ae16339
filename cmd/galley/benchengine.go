package main

import (
	"github.com/galley-ml/galley/internal/bench"
)

// benchEngineCmd times how a serving engine shares its steps between requests.
type benchEngineCmd struct {
	output
	shapeFlags
	Weights   []string `help:"Formats of weights: f32, bf16, int8 or int4." enum:"f32,bf16,int8,int4" default:"int8"`
	Long      int      `help:"Tokens of the prompt that is seen twice, and that arrives while sequences are continued." default:"1500"`
	Prompt    int      `help:"Tokens of the sequences' own prompts." default:"100"`
	Sequences int      `help:"Sequences at once." default:"8"`
	Threads   int      `help:"Threads; 0 means all cores."`
	Runs      int      `help:"Timed steps; sequences are of four times as many tokens." default:"16"`
}

// Help returns the text that galley bench engine --help adds.
func (benchEngineCmd) Help() string {
	return `Times how an engine with random weights shares its steps: the first token of a long prompt, and of
the same prompt again; the steps of sequences while a long prompt arrives, beside those before; and the tokens
of sequences from Go and over HTTP. Processor time is printed beside, since other work on the machine changes
it less; use --threads 1 with it.

Examples:
  galley bench engine --layers 12 --dim 768 --heads 12 --kv-heads 12 --ffn 3072 --threads 1
  galley bench engine --weights bf16,int4 --sequences 16 --json`
}

func (c *benchEngineCmd) Run() error {
	err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "kv-heads": c.KVHeads,
		"ffn": c.FFN, "vocab": c.Vocab, "prompt": c.Prompt, "sequences": c.Sequences, "runs": c.Runs,
		"long": c.Long})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads})
	}
	for _, w := range c.Weights {
		if err != nil {
			break
		}
		var r bench.EngineResult
		r, err = bench.Engine(bench.EngineConfig{Long: c.Long, DecodeConfig: bench.DecodeConfig{Model: c.config(),
			Weights: w, Sequences: c.Sequences, Prompt: c.Prompt, Threads: c.Threads, Runs: c.Runs}})
		if err == nil {
			err = c.print(r)
		}
	}
	return err
}
