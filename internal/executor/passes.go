package executor

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
)

// Passes returns the passes that the strategy names, or the default ones.
func (c Config) Passes() pass.List {
	var names []string
	if c.Strategy != nil {
		names = c.Strategy.FusedPasses
	}
	l, err := pass.Select(names)
	if err != nil { // CheckPasses has rejected it
		l, _ = pass.Select(nil)
	}
	return l
}

// CheckPasses returns an error for requested passes that this config does not support.
func (c Config) CheckPasses() error {
	if c.Strategy == nil {
		return nil
	}
	l, err := pass.Select(c.Strategy.FusedPasses)
	switch {
	case err != nil:
		return fmt.Errorf("strategy: fused_passes: %w", err)
	case !l.Explicit:
		return nil
	case c.splitsTensors() && l.Has(pass.JoinName):
		return fmt.Errorf(
			"strategy: fused_passes: %s with tp=%d: weights that are split cannot be joined: leave it "+
				"out, or want tp=1",
			pass.JoinName,
			c.Strategy.TP,
		)
	case c.Backend != nil && l.Has(pass.LoopsName):
		return fmt.Errorf(
			"strategy: fused_passes: %s with a backend: its compiler makes loops itself: leave it out",
			pass.LoopsName,
		)
	}
	return nil
}

// OptimizeProgram runs the passes of a program before it is split over devices or given to a backend.
func (c Config) OptimizeProgram(p *ir.Func) (*ir.Func, error) {
	return c.Passes().Run(pass.OnProgram, p)
}

// OptimizeLocal runs the passes of a program of one device.
func (c Config) OptimizeLocal(p *ir.Func) (*ir.Func, error) { return c.Passes().Run(pass.OnDevice, p) }
