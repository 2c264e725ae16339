package main

import (
	"errors"

	"github.com/galley-ml/galley/internal/bench"
)

type benchFuseCmd struct {
	output
	Op      []string `help:"Functions: rmsnorm, layernorm, softmax, gelu, swiglu, adamw, crossentropy, rope." default:"rmsnorm,layernorm,softmax,gelu,swiglu,adamw"`
	Rows    int      `help:"Rows." default:"2048"`
	Cols    int      `help:"Columns." default:"1024"`
	Grad    bool     `help:"With the gradients of all operands."`
	Threads int      `help:"Threads; 0 means all cores."`
	Runs    int      `help:"Measured runs of each way." default:"20"`
	Nodes   int      `help:"Measure how long a program of so many ops takes to be joined to loops, and nothing else." placeholder:"N"`
}

// Help returns the text that galley bench fuse --help adds.
func (benchFuseCmd) Help() string {
	return `Functions written in primitive ops, run op by op, joined to loops, and by the op that is written by
hand for them, in turns: the best time of each, the bytes that operands and results have a second, and what a
copy of as many bytes takes. GALLEY_JIT=off shows loops without generated code.

Examples:
  galley bench fuse --op rmsnorm,gelu --rows 2048 --cols 1024 --threads 1
  galley bench fuse --op softmax --grad --json
  galley bench fuse --nodes 1600                        how long it takes to make the loops of a program`
}

func (c *benchFuseCmd) Run() error {
	err := positive(map[string]int{"rows": c.Rows, "cols": c.Cols, "runs": c.Runs})
	if err == nil {
		err = natural(map[string]int{"threads": c.Threads, "nodes": c.Nodes})
	}
	if err == nil && len(c.Op) == 0 {
		err = errors.New("--op: want at least one function")
	}
	if err != nil {
		return err
	}
	if c.Nodes > 0 {
		m, err := bench.MakeLoops(c.Nodes)
		if err != nil {
			return err
		}
		return c.print(m)
	}
	for _, name := range c.Op {
		r, err := bench.Fuse(bench.FuseConfig{Op: name, Rows: c.Rows, Cols: c.Cols, Grad: c.Grad,
			Threads: c.Threads, Runs: c.Runs})
		if err != nil {
			return err
		}
		if err := c.print(r); err != nil {
			return err
		}
	}
	return nil
}
