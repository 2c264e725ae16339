package main

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/internal/pass"
)

// dumpCmd prints the program of a training step.
type dumpCmd struct {
	spreadFlags
	After  string `help:"Pass to stop after: trace, fold, merge, prune, fuse, of the step on one device; infer, partition, of the same on a mesh; stage, tape, of the step that galley train runs by this strategy; stablehlo is the text that XLA compiles, spmd that for all devices of the mesh." default:"prune" enum:"trace,fold,merge,prune,fuse,infer,partition,stage,tape,stablehlo,spmd"`
	Target string `help:"Device that the StableHLO is for: any, or cuda for cuDNN's attention." default:"any" enum:"any,cuda"`
	Why    bool   `help:"After infer, also list why each value has the layout it has; after fuse, what each loop saves, and why other ops are in none."`
	Device *int   `help:"Device whose program is printed after partition, or whose tape alone after tape." placeholder:"N"`
}

// Help returns the text that galley dump --help adds.
func (dumpCmd) Help() string {
	return `Examples:
  galley dump --after=trace                the step as it was traced, with the line that made each op
  galley dump --after=prune --layers 2     what runs
  galley dump --after=fuse --why           the loops that ops are joined to on this machine, and why
  galley dump --model llama-dir --seq 128  the step of a Hugging Face model
  galley dump --after=infer                the layout of every value on a mesh of 2×2: f32[2,8,16]@[dp,_,_]
  galley dump --after=infer --why          … and why
  galley dump --after=partition --device 3 --mesh dp=2,tp=4
                                           the program of one device, with its collectives
  galley dump --after=stage --mesh dp=2,tp=2,pp=2
                                           the stages, how their values are laid out and what devices exchange
  galley dump --after=tape --mesh dp=2,tp=2,pp=2 --zero 2
                                           the whole plan: what every device runs, sends and receives, and where its memory is
  galley dump --after=tape --mesh pp=2 --device 1
                                           … of one device
  galley dump --after=tape --mesh dp=1     … without a strategy: one device runs the step as one program
  galley dump --after=tape --mesh dp=2 --backend xla --micro 2
                                           … on devices of a backend, which run whole programs
  galley dump --after=stablehlo            the text that XLA compiles
  galley dump --after=spmd --mesh dp=4     … and that which the devices of a mesh share`
}

func (c *dumpCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	text, err := c.text()
	if err != nil {
		return err
	}
	fmt.Print(strings.TrimRight(text, "\n") + "\n")
	return nil
}

// text returns the text to print.
func (c *dumpCmd) text() (string, error) {
	if err := c.takes(); err != nil {
		return "", err
	}
	if c.After == "stage" || c.After == "tape" {
		return c.steps()
	}
	p, err := c.program()
	if err != nil {
		return "", err
	}
	return c.after(p)
}

// takes returns an error if a flag has no effect on what is printed.
func (c *dumpCmd) takes() error {
	what := "--after=" + c.After
	switch c.After {
	case "stage", "tape":
		if c.After == "stage" && c.Device != nil {
			return fmt.Errorf("%s: all devices of a stage share it: leave --device out, or want --after=tape", what)
		}
		return nil
	case "infer", "partition", "spmd":
		return c.onlyMesh(what)
	}
	if c.Mesh != "" || len(c.Shard) > 0 || c.Plan != "train" {
		return fmt.Errorf("%s: the step is on one device: leave --mesh, --plan and --shard out", what)
	}
	return c.onlyMesh(what)
}

// steps returns the text of the step's plan, as train runs it.
func (c *dumpCmd) steps() (string, error) {
	p, err := c.planned()
	if err != nil {
		return "", err
	}
	switch {
	case c.After == "stage":
		return p.Step.Outline().String(), nil
	case c.Device == nil:
		return p.Step.String(), nil
	case *c.Device < 0 || *c.Device >= p.Step.Devices():
		return "", fmt.Errorf("--device=%d: the strategy has devices 0 to %d", *c.Device, p.Step.Devices()-1)
	}
	return p.Step.TapeText(*c.Device), nil
}

// after returns the program's text after the pass that --after names.
func (c *dumpCmd) after(p *galley.Program) (string, error) {
	switch c.After {
	case "trace":
		return p.String(), nil
	case "infer", "partition", "spmd":
		d, err := c.distribute(p)
		if err != nil {
			return "", err
		}
		if c.After == "spmd" {
			return c.spmd(d)
		}
		if c.After == "infer" {
			return d.String() + c.reasons(d), nil
		}
		device := 0
		if c.Device != nil {
			device = *c.Device
		}
		local, err := d.Local(device)
		if err != nil {
			return "", fmt.Errorf("--device: %w", err)
		}
		return local.String(), nil
	case "stablehlo":
		return c.module(p)
	case "fuse":
		return c.loops(p)
	}
	p, err := pass.Until(p, c.After, nil)
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

// loops returns the text of what one device runs: the program with its ops fused into loops.
func (c *dumpCmd) loops(p *galley.Program) (string, error) {
	p, err := pass.Optimize(p)
	if err == nil {
		p, err = pass.Fuse(p)
	}
	if err != nil {
		return "", err
	}
	p, groups, err := pass.Groups(p, pass.GroupConfig{})
	if err != nil {
		return "", err
	}
	if c.Why {
		return pass.FormatLoops(p) + groups.Why() + groups.Totals(), nil
	}
	return pass.FormatLoops(p), nil
}

// module returns the program of one device as StableHLO.
func (c *dumpCmd) module(p *galley.Program) (string, error) {
	p, err := pass.Optimize(p)
	if err != nil {
		return "", err
	}
	return lower.Module(p, lower.ModuleConfig{Config: hlo.Config{Target: c.target()}})
}

func (c *dumpCmd) target() hlo.Target {
	if c.Target == "cuda" {
		return hlo.CUDA
	}
	return hlo.Any
}

// spmd returns the programs of all devices as one SPMD module in StableHLO.
func (c *dumpCmd) spmd(d *galley.Distributed) (string, error) {
	locals := make([]*galley.Program, d.Mesh().Size())
	for device := range locals {
		var err error
		if locals[device], err = d.Local(device); err != nil {
			return "", err
		}
	}
	return lower.SPMD(locals, lower.ModuleConfig{Config: hlo.Config{Target: c.target(), Replicas: len(locals)}})
}

// reasons returns one line for each sharding decision, if --why is set.
func (c *dumpCmd) reasons(d *galley.Distributed) string {
	var b strings.Builder
	for id, list := range d.Reasons() {
		for _, why := range list {
			if c.Why {
				fmt.Fprintf(&b, "%%%d: %s\n", id, why)
			}
		}
	}
	return b.String()
}
