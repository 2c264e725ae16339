// Package choose picks the executor of a config: a backend, many in-process devices, two for
// branches, or one.
package choose

import (
	"fmt"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/accelerator"
	"github.com/galley-ml/galley/internal/executor/branches"
	"github.com/galley-ml/galley/internal/executor/local"
	"github.com/galley-ml/galley/internal/executor/tapes"
	"github.com/galley-ml/galley/internal/ir"
)

// New makes the executor of a config. An executor of one device switches to many if programs turn out to
// request them.
func New(c executor.Config) (executor.Executor, error) {
	if err := c.CheckPasses(); err != nil {
		return nil, err
	}
	if err := c.CheckMixed(); err != nil {
		return nil, err
	}
	if err := c.LoadValues(); err != nil {
		return nil, err
	}
	if err := c.CheckAnnotated(); err != nil {
		return nil, err
	}
	many := func() (executor.Executor, error) { return tapes.New(c) }
	switch {
	case c.Backend != nil:
		return accelerator.New(c)
	case c.Device == nil:
		return nil, fmt.Errorf("trainer: want a device")
	case c.Strategy != nil && c.Strategy.Branches > 1:
		return branches.New(c, func(c executor.Config) (executor.Executor, error) { return local.New(c) })
	case c.Strategy != nil || c.Annotated():
		return many()
	case len(c.Shares) > 0:
		return local.NewShares(c)
	}
	one, err := local.New(c)
	if err != nil {
		return nil, err
	}
	return c.Annotatable(one, many), nil
}

// Plan returns the plan of the executor that New would choose; parameters need no values.
func Plan(c executor.Config, batch ...ir.Type) (*executor.Plan, error) {
	if err := c.CheckPasses(); err != nil {
		return nil, err
	}
	switch {
	case c.Backend != nil:
		return accelerator.Plan(c, batch...)
	case c.Strategy != nil && c.Strategy.Branches > 1:
		return branches.Plan(c, batch...)
	case c.Strategy != nil:
		return tapes.Plan(c, batch...)
	}
	return local.Plan(c, batch...)
}
