package galley

import (
	"fmt"

	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/optim"
)

// Optimizer is an optimizer and what goes along with it in training. It stands wherever an optim.Optimizer is
// asked for; ToStatic, Parallelize and Engine look inside.
type Optimizer struct {
	// Optimizer's zero value is AdamW with its defaults.
	optim.Optimizer
	// Schedule is the learning rate; nil is a constant 1e-3.
	Schedule optim.Schedule
	// ClipNorm limits the norm of all gradients together; 0 does not.
	ClipNorm float64
	// Sharding splits its memory, and more, over the devices that share the work on a batch; nil leaves that to
	// the strategy.
	Sharding optim.ShardingStage
	// Accumulate is how many micro-batches' gradients are summed before an update; 0 leaves that to the
	// strategy.
	Accumulate int
}

// ShardOptimizer is an optimizer whose memory is split over devices, by stages of ZeRO.
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

// optimizerOf is an optimizer with what goes along with it.
func optimizerOf(o optim.Optimizer) Optimizer {
	if p, ok := o.(*Optimizer); ok {
		return *p
	}
	return Optimizer{Optimizer: o}
}

// EagerConfig is the optimizer as eager.NewOptimizer takes it.
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

// configure gives a trainer's config the optimizer.
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

// strategyAxis is the axis of a strategy that the optimizer is sharded over. Where parameters are on meshes, or
// the strategy has no degrees, so that a program may lay its tensors on some, it is one of theirs.
func (c *TrainerConfig) strategyAxis() string {
	if c.Strategy == nil || c.Strategy.Devices() == 1 || c.executor().Annotated() {
		return ""
	}
	return c.zeroAxis
}
