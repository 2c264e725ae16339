package main

import (
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/check"
)

// checkCmd groups the checks.
type checkCmd struct {
	Ops     checkOpsCmd     `cmd:"" help:"Every op of DIR/ops.json: results, gradients, Hessian products, eager and traced, in f64 and f32."`
	Model   checkModelCmd   `cmd:"" help:"A Hugging Face model with recorded logits, gradients, losses and continuation."`
	Burgers checkBurgersCmd `cmd:"" help:"A physics-informed network with second derivatives in its loss."`
}

// place is what all checks take.
type place struct {
	Dir     string `arg:"" help:"Directory with the recorded results." type:"existingdir"`
	Threads int    `help:"Threads; 0 means all cores."`
	Verbose bool   `short:"v" help:"Print the cases that pass, too."`
}

func (p place) device() *galley.Device { return galley.CPU(galley.Config{Threads: p.Threads}) }

// verdict turns a report into the command's result.
func verdict(r *check.Report, err error) error {
	if err != nil {
		return err
	}
	if r.Failed() > 0 || r.Passed() == 0 {
		return errFailed
	}
	return nil
}

type checkOpsCmd struct {
	place
}

func (c *checkOpsCmd) Run() error {
	d := c.device()
	defer d.Close()
	return verdict(check.Ops(os.Stdout, c.Dir, check.OpsConfig{Device: d, Verbose: c.Verbose}))
}

type checkBurgersCmd struct {
	place
}

func (c *checkBurgersCmd) Run() error {
	d := c.device()
	defer d.Close()
	return verdict(check.Burgers(os.Stdout, c.Dir, d))
}

type checkModelCmd struct {
	place
	Eager bool `help:"Run op by op in place of compiled."`
}

func (c *checkModelCmd) Run() error {
	d := c.device()
	defer d.Close()
	mode := galley.Static
	if c.Eager {
		mode = galley.Eager
	}
	return verdict(check.Model(os.Stdout, c.Dir, check.ModelConfig{Device: d, Mode: mode, Verbose: c.Verbose}))
}
