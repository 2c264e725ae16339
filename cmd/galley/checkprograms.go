package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/check/random"
)

type checkProgramsCmd struct {
	Programs int    `help:"How many programs." default:"500"`
	From     uint64 `help:"The seed of the first: the same seed is the same program."`
}

// Help returns the text that galley check programs --help adds.
func (checkProgramsCmd) Help() string {
	return `Draws programs whose parameters, inputs and activations say where they are: random ops, meshes of
some or all of up to eight devices, placements and pending sums, weights that several meshes use, and a
strategy with ZeRO over an axis, micro-batches, recomputation, offloading, buckets and overlap. Each is
trained op by op on its meshes, compiled by ToStatic as it is, compiled under its strategy, and on one device
without annotations: values, gradients and the parameters after two steps of AdamW must be the same to 1e-10
in f64, and every annotation must be found in the eager tensors and in the plan, or be refused with its line.
A program that is wrong is printed in full. The exit code is 1 if any is. It takes about a minute.

Examples:
  galley check programs
  galley check programs --programs 1 --from 334`
}

func (c *checkProgramsCmd) Run() error {
	if err := positive(map[string]int{"programs": c.Programs}); err != nil {
		return err
	}
	r := random.Programs(os.Stdout, c.From, c.Programs)
	fmt.Printf("%d programs from seed %d: %d wrong, %d refused with their line\n", c.Programs, c.From, r.Wrong,
		r.Refused)
	if r.Wrong > 0 {
		return errFailed
	}
	return nil
}
