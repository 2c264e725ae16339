package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/bench"
	"github.com/galley-ml/galley/internal/check"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
)

type checkPlannerCmd struct {
	Calibration string `help:"File of galley calibrate; this machine is measured where none is given." type:"existingfile" placeholder:"FILE"`
	Layers      int    `default:"8" help:"Blocks; pipelines of the table have up to 8 stages."`
	Dim         int    `default:"128" help:"Width."`
	Heads       int    `default:"4" help:"Attention heads; a multiple of 4, which tensors are split by."`
	Seq         int    `default:"128" help:"Tokens in a sequence."`
	Batch       int    `default:"16" help:"Sequences in a step; at least 16, which some strategies split it into."`
	Vocab       int    `default:"1024" help:"Size of the vocabulary."`
	Threads     int    `help:"Threads that devices share; 0 is all cores, 1 is one for each device."`
	Rounds      int    `help:"Turns of each strategy, of three measured steps; 0 is as many as it takes until every other one ranks strategies as the rest do, 16 at most."`
}

// Help returns the text that galley check planner --help adds.
func (checkPlannerCmd) Help() string {
	return `Predicts the step of a small GPT-2 under 38 strategies on one to eight devices of this process, then
times them in turn. A prediction prices the very programs that the devices run, node by node, with what galley
calibrate measured of this machine's cores, and runs them against each other on the cores that they share. The
exit code is 1 if predicted and measured times rank less alike than Kendall's tau 0.8, or a device takes
another number of bytes than planned. How alike every other round and the rest rank the strategies is printed,
too: where a machine does not agree with itself, no prediction can. It takes 5 to 15 minutes. Processor time
is compared besides.

Examples:
  galley check planner
  galley check planner --threads 1 --rounds 5     devices of one thread each
  galley calibrate --devices 8 -o here.yaml && galley check planner --calibration here.yaml`
}

func (c *checkPlannerCmd) Run() error {
	if err := positive(map[string]int{"layers": c.Layers, "dim": c.Dim, "heads": c.Heads, "seq": c.Seq,
		"batch": c.Batch, "vocab": c.Vocab}); err != nil {
		return err
	}
	if c.Rounds < 0 {
		return fmt.Errorf("--rounds=%d: want 0 or more", c.Rounds)
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("--dim=%d: want a multiple of --heads=%d", c.Dim, c.Heads)
	}
	text, err := c.calibration()
	if err != nil {
		return err
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	g, err := check.Planner(os.Stdout, check.PlannerConfig{
		Device: d, Calibration: text, Batch: c.Batch, Seq: c.Seq, Rounds: c.Rounds, CPU: bench.CPUSeconds,
		Tell: progressPrinter(),
		Model: models.Config{Family: "gpt2", Vocab: c.Vocab, Hidden: c.Dim, Layers: c.Layers, Heads: c.Heads,
			Positions: c.Seq, Tied: true},
	})
	if err != nil {
		return err
	}
	if !g.Holds() {
		return errFailed
	}
	return nil
}

func (c *checkPlannerCmd) calibration() ([]byte, error) {
	if c.Calibration != "" {
		return strict.ReadFile(c.Calibration, strict.Config)
	}
	cal, err := bench.Calibrate(bench.CalibrateConfig{Devices: 8, Tell: progressPrinter()})
	return cal.YAML(), err
}
