package main

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/bench"
)

type benchHybridCmd struct {
	output
	strategyFlags
	Layers  int `default:"4" help:"Blocks."`
	Dim     int `default:"256" help:"Width."`
	Heads   int `default:"4" help:"Attention heads."`
	Seq     int `default:"256" help:"Tokens in a sequence."`
	Batch   int `default:"8" help:"Sequences in a step."`
	Vocab   int `default:"8192" help:"Size of the vocabulary."`
	Threads int `help:"Threads of the one device; 0 means all cores."`
	Runs    int `help:"Measured pairs of steps." default:"9"`
}

// Help returns the text that galley bench hybrid --help adds.
func (benchHybridCmd) Help() string {
	return `Times the same training step of a GPT-2 on one device and on the in-process devices of a strategy, in
turn, and prints the median ratio: what splitting the work costs where the cores stay the same.

Example:
  galley bench hybrid --mesh dp=2,tp=2,pp=2 --micro 2`
}

func (c *benchHybridCmd) Run() error {
	if err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "seq": c.Seq,
		"batch": c.Batch, "vocab": c.Vocab, "runs": c.Runs}); err != nil {
		return err
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("--dim=%d: want a multiple of --heads=%d", c.Dim, c.Heads)
	}
	s, err := c.strategy()
	if err != nil {
		return err
	}
	if s == nil {
		s = &galley.Strategy{}
	}
	r, err := bench.Hybrid(bench.StepConfig{
		Layers: c.Layers, Dim: c.Dim, Heads: c.Heads, Seq: c.Seq, Batch: c.Batch, Vocab: c.Vocab,
		Threads: c.Threads, Runs: c.Runs,
	}, *s)
	if err != nil {
		return err
	}
	return c.print(r)
}
