package main

import (
	"fmt"

	"github.com/galley-ml/galley/internal/bench"
)

type benchCommCmd struct {
	output
	Bytes   []int `help:"Sizes of the arrays that are reduced." default:"64,4096,65536,1048576,4194304,67108864"`
	Devices int   `help:"Devices of one process, to compare with." default:"2"`
	Runs    int   `help:"Measured calls of each size; 0 chooses by the size."`
}

// Help returns the text that galley bench comm --help adds.
func (benchCommCmd) Help() string {
	return `Prints the median of all-reduces of float32 by size, in microseconds: between devices of one process
and, started by a launcher, between processes and by MPI_Allreduce, by turns. bench/processes.py comm adds
PyTorch's gloo.

Examples:
  galley bench comm --bytes 64,4096
  galley launch -n 2 -- bench comm --json
  mpirun -n 2 --bind-to none galley bench comm`
}

func (c *benchCommCmd) Run() error {
	if err := positive(map[string]int{"devices": c.Devices}); err != nil {
		return err
	}
	if err := natural(map[string]int{"runs": c.Runs}); err != nil {
		return err
	}
	if len(c.Bytes) == 0 {
		return fmt.Errorf("--bytes: want at least one size")
	}
	for _, n := range c.Bytes {
		if n < 4 || n%4 != 0 || n > 1<<30 {
			return fmt.Errorf("--bytes=%d: want a multiple of 4, up to %d", n, 1<<30)
		}
	}
	config := bench.CommConfig{Job: job, Devices: c.Devices, Bytes: c.Bytes, Runs: c.Runs}
	return bench.Comm(config, func(r bench.CommResult) error { return c.print(r) })
}
