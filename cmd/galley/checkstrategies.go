package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/check"
)

type checkStrategiesCmd struct {
	Dirs    []string `arg:"" name:"dir" help:"Hugging Face directories that also hold recorded losses." type:"existingdir"`
	Filter  string   `help:"Run the rows whose names contain this." placeholder:"TEXT"`
	Write   string   `help:"File to write the table to, in Markdown." type:"path" placeholder:"FILE"`
	Threads int      `help:"Threads of one device; 0 means all cores."`
}

// Help returns the text that galley check strategies --help adds.
func (checkStrategiesCmd) Help() string {
	return `Trains each model in every way that it can be split over devices of this process: data, tensor,
pipeline under every schedule, context, expert and sequence parallel, ZeRO, recomputation, offload, uneven
batches and stages. Every loss must be within 2e-5 of one device in f32 and 1e-10 in f64, and within 2e-4 of
the recorded one; every device must take the memory that was predicted, to the byte. Pipelines that need more
layers than a model has are run on a new one of 8 layers (×8), for which nothing is recorded. The last line
counts: N passed, M failed. The exit code is 1 if any failed.

Examples:
  galley check strategies fixtures/llama fixtures/mixtral
  galley check strategies fixtures/* --filter zero3
  galley check strategies fixtures/* --write docs/equivalence.md`
}

func (c *checkStrategiesCmd) Run() error {
	if err := natural(map[string]int{"threads": c.Threads}); err != nil {
		return err
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	t, err := check.Strategies(os.Stdout, c.Dirs, check.StrategiesConfig{Device: d, Filter: c.Filter})
	if err != nil {
		return err
	}
	if t.Passed()+t.Failed() == 0 {
		return fmt.Errorf("--filter=%s: no row's name contains it: they are like %q", c.Filter,
			"llama dp2·tp2·pp2 1f1b ×4")
	}
	if c.Write != "" {
		if err := os.WriteFile(c.Write, []byte(t.Markdown()), 0o644); err != nil {
			return err
		}
	}
	return verdict(t.Report, nil)
}
