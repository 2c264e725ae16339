package galley

import (
	"fmt"

	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/optim"
)

// Optimizer bundles an optimizer with its schedule, clipping and sharding. It can be passed wherever an
// optim.Optimizer is expected; ToStatic, Parallelize and Engine use the additional fields.
type Optimizer struct {
	// Optimizer defaults to AdamW.
	optim.Optimizer
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm clips the global gradient norm; 0 turns clipping off.
	ClipNorm float64
	// Sharding is the ZeRO stage; nil leaves it to the strategy.
	Sharding optim.ShardingStage
	// Accumulate is the number of micro-batches whose gradients are summed before an update; 0 leaves it to
	// the strategy.
	Accumulate int
}

// ShardOptimizer returns an optimizer whose state is sharded over devices by a ZeRO stage.
func ShardOptimizer(o optim.Optimizer, s optim.ShardingStage) (*Optimizer, error) {
	if o == nil {
		return nil, fmt.Errorf("shard optimizer: want an optimizer: optim.AdamW{} has useful defaults")
	}
	if s == nil {
		return nil, fmt.Errorf("shard optimizer: want optim.ShardingStage1, 2 or 3")
	}
	out := optimizerOf(o)
	out.Sharding = s
	return &out, nil
}

// optimizerOf returns o as an Optimizer, unwrapping one that already is.
func optimizerOf(o optim.Optimizer) Optimizer {
	if p, ok := o.(*Optimizer); ok {
		return *p
	}
	return Optimizer{Optimizer: o}
}

// EagerConfig returns the arguments of eager.NewOptimizer for this optimizer.
func (o Optimizer) EagerConfig() (optim.Optimizer, eager.Config, error) {
	c := eager.Config{Schedule: o.Schedule, ClipNorm: o.ClipNorm, Sharding: o.Sharding}
	if o.Accumulate > 1 {
		return nil, c, fmt.Errorf("optimizer: it accumulates %d: in a loop of one's own call Backward that often "+
			"before Step, and leave Accumulate out", o.Accumulate)
	}
	if o.Optimizer == nil {
		o.Optimizer = optim.AdamW{}
	}
	return o.Optimizer, c, nil
}

// configure copies the optimizer and its settings into a trainer config.
func (o Optimizer) configure(c *TrainerConfig) (err error) {
	if c.Optimizer = o.Optimizer; c.Optimizer == nil {
		c.Optimizer = optim.AdamW{}
	}
	if c.Schedule == nil {
		c.Schedule = o.Schedule
	}
	if c.ClipNorm == 0 {
		c.ClipNorm = o.ClipNorm
	}
	if o.Sharding != nil {
		c.zeroAxis = o.Sharding.Over()
		c.Strategy, err = c.Strategy.WithZero(o.Sharding.Stage(), c.strategyAxis())
	}
	if err == nil && o.Accumulate > 0 {
		c.Strategy, err = c.Strategy.WithMicro(o.Accumulate)
	}
	return err
}

// strategyAxis returns the strategy's axis over which the optimizer is sharded. It is empty for parameters
// that have meshes of their own, and for a strategy of one device, under which a program may annotate its
// tensors with meshes: zeroAxis then names an axis of those.
func (c *TrainerConfig) strategyAxis() string {
	if c.Strategy == nil || c.Strategy.Devices() == 1 || c.executor().Annotated() {
		return ""
	}
	return c.zeroAxis
}
