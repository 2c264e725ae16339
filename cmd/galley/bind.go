package main

import (
	"fmt"
	"os"

	"github.com/galley-ml/galley/internal/discover"
)

// bindVariable is the environment variable that names the hardware threads a process runs on and the NUMA
// node of its memory.
const bindVariable = "GALLEY_BIND"

// binding returns a function from a rank to the variables that bind it; nil if processes are not bound.
func (c *launchCmd) binding() (func(rank int) ([]string, []*os.File), error) {
	machine := discover.Files(os.DirFS("/"))
	allowed, err := allowedThreads()
	bind := c.Bind == "cores"
	if c.Bind == "auto" { // with one NUMA node the system schedules well by itself
		bind = err == nil && len(machine.Nodes) > 1 && len(allowed) >= 2*c.N
	}
	if !bind {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--bind=cores: %w", err)
	}
	shares, ok := discover.Deal(machine.Nodes, allowed, c.N)
	if !ok {
		return nil, fmt.Errorf(
			"--bind=cores: %d processes for %d threads of the machine: want at least one each",
			c.N,
			len(allowed),
		)
	}
	return func(rank int) ([]string, []*os.File) {
		return []string{bindVariable + "=" + shares[rank].String()}, nil
	}, nil
}
