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
	stepFlags
	meshFlags
	After  string `help:"Pass to stop after: trace, fold, merge, prune, infer, partition; stablehlo is the text that XLA compiles, spmd that for all devices of the mesh." default:"prune" enum:"trace,fold,merge,prune,infer,partition,stablehlo,spmd"`
	Target string `help:"Device that the StableHLO is for: any, or cuda for cuDNN's attention." default:"any" enum:"any,cuda"`
	Why    bool   `help:"After infer, also list why each value has the layout it has."`
	Device int    `help:"Device whose program is printed after partition."`
}

// Help is what galley dump --help adds.
func (dumpCmd) Help() string {
	return `Examples:
  galley dump --after=trace                the step as it was traced, with the line that made each op
  galley dump --after=prune --layers 2     what runs
  galley dump --model llama-dir --seq 128  the step of a Hugging Face model
  galley dump --after=infer                the layout of every value on a mesh of 2×2: f32[2,8,16]@[dp,_,_]
  galley dump --after=infer --why          … and why
  galley dump --after=partition --device 3 --mesh dp=2,tp=4
                                           the program of one device, with its collectives
  galley dump --after=stablehlo            the text that XLA compiles
  galley dump --after=spmd --mesh dp=4     … and that which the devices of a mesh share`
}

func (c *dumpCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	p, err := c.program()
	if err != nil {
		return err
	}
	text, err := c.after(p)
	if err != nil {
		return err
	}
	fmt.Print(strings.TrimRight(text, "\n") + "\n")
	return nil
}

// after is the program's text after the pass that was asked for.
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
		local, err := d.Local(c.Device)
		if err != nil {
			return "", fmt.Errorf("--device: %w", err)
		}
		return local.String(), nil
	case "stablehlo":
		return c.module(p)
	}
	p, err := pass.Until(p, c.After, nil)
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

// module is the program of one device as StableHLO.
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

// spmd is the programs of all devices as one module.
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

// reasons is a line for each decision, if they are asked for.
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
