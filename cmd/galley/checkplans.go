package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/check"
)

type checkPlansCmd struct {
	Filter string `help:"Try the pairs whose names contain this." placeholder:"TEXT"`
	Pairs  int    `help:"How many pairs; 0 is all."`
	Top    int    `help:"Plans of each pair, the best of so many divisions of the devices." default:"1"`
}

// Help returns the text that galley check plans --help adds.
func (checkPlansCmd) Help() string {
	return `Plans fifty pairs of a model and a cluster as galley plan does, writes each plan with the memory of
its tapes, and has a trainer plan the run of the file, as galley train --plan --dry-run does: a plan that
training refuses is a failure, and so is a device that would take another number of bytes than the file says,
or more than it has, or of which the search thought less than 0.95 of that. No array is made. The exit code is
1 if any failed. It takes some minutes.

Examples:
  galley check plans
  galley check plans --filter mixtral --top 3`
}

func (c *checkPlansCmd) Run() error {
	if err := positive(map[string]int{"top": c.Top}); err != nil {
		return err
	}
	if err := natural(map[string]int{"pairs": c.Pairs}); err != nil {
		return err
	}
	r, err := check.Plans(os.Stdout, check.PlansConfig{Pairs: c.Pairs, Filter: c.Filter, Top: c.Top})
	if err != nil {
		return err
	}
	if r.Passed()+r.Failed() == 0 {
		return fmt.Errorf("--filter=%s: no pair's name contains it: they are like %q", c.Filter, check.Pairs()[0])
	}
	return verdict(r, nil)
}
