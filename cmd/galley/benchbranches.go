package main

import "github.com/galley-ml/galley/internal/bench"

type benchBranchesCmd struct {
	output
	Dim    int `help:"Width of the model." default:"256"`
	Layers int `help:"Blocks." default:"4"`
	Seq    int `help:"Tokens of the sample." default:"256"`
	Steps  int `help:"Measured steps of each way." default:"10"`
}

// Help returns the text that galley bench branches --help adds.
func (benchBranchesCmd) Help() string {
	return `Training steps of one sample of a model of parallel blocks (gptj), in which attention and the MLP do
not depend on each other: on one device with a thread, as where data parallelism gives each device a sample,
and on two by branch parallelism, in turns. Prints the predicted time and the best measured one of each way.

Examples:
  galley bench branches --dim 512 --layers 2`
}

func (c *benchBranchesCmd) Run() error {
	err := positive(map[string]int{"dim": c.Dim, "layers": c.Layers, "seq": c.Seq, "steps": c.Steps})
	if err != nil {
		return err
	}
	r, err := bench.Branches(bench.BranchesConfig{Hidden: c.Dim, Layers: c.Layers, Seq: c.Seq, Steps: c.Steps})
	if err != nil {
		return err
	}
	return c.print(r)
}
