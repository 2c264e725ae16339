package galley

import (
	"fmt"

	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
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
	Sharding ShardingStage
	// Accumulate is how many micro-batches' gradients are summed before an update; 0 leaves that to the
	// strategy.
	Accumulate int
}

// ShardingStage is one of ZeRO's: ShardingStage1, ShardingStage2 or ShardingStage3.
type ShardingStage interface {
	zero() int
	axis() string
}

// ShardingStage1 splits the optimizer's memory over the data axes.
type ShardingStage1 struct {
	// Axis is dp, also where it is empty. Where experts or sequences are split, too, their axes belong to the
	// data axes. In an eager loop it may be any axis of the meshes that parameters are on.
	Axis string
}

// ShardingStage2 also splits the sums of gradients: they are scattered as soon as they are made.
type ShardingStage2 struct{ Axis string }

// ShardingStage3 also splits the parameters: a layer gathers them when it computes.
type ShardingStage3 struct{ Axis string }

func (ShardingStage1) zero() int      { return 1 }
func (ShardingStage2) zero() int      { return 2 }
func (ShardingStage3) zero() int      { return 3 }
func (s ShardingStage1) axis() string { return s.Axis }
func (s ShardingStage2) axis() string { return s.Axis }
func (s ShardingStage3) axis() string { return s.Axis }

// ShardOptimizer is an optimizer whose memory is split over devices, by stages of ZeRO.
func ShardOptimizer(o optim.Optimizer, s ShardingStage) (*Optimizer, error) {
	if o == nil {
		return nil, fmt.Errorf("shard optimizer: want an optimizer: optim.AdamW{} has useful defaults")
	}
	if s == nil {
		return nil, fmt.Errorf("shard optimizer: want ShardingStage1, ShardingStage2 or ShardingStage3")
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

// strategy is s with what the optimizer asks for.
func (o Optimizer) strategy(s *Strategy) (*Strategy, error) {
	if o.Sharding == nil && o.Accumulate == 0 {
		return s, nil
	}
	var out Strategy
	if s != nil {
		out = *s
	}
	if o.Sharding != nil {
		want := o.Sharding.zero()
		if a := o.Sharding.axis(); a != "" && a != strategy.DataAxis {
			return nil, fmt.Errorf("strategy: the optimizer is sharded over axis %q: want %q: state is split over the axes that split batches", a, strategy.DataAxis)
		}
		if out.Zero != 0 && out.Zero != want {
			return nil, fmt.Errorf("strategy: zero is %d and the optimizer is sharded by stage %d: leave one of them out", out.Zero, want)
		}
		if o.Sharding.axis() != "" && max(out.DP, out.EP) <= 1 {
			return nil, fmt.Errorf("strategy: the optimizer is sharded over axis %s, which has one device: set DP to 2 or more, or leave out the sharding", strategy.DataAxis)
		}
		out.Zero = want
	}
	if o.Accumulate > 0 {
		if out.Micro != 0 && out.Micro != o.Accumulate {
			return nil, fmt.Errorf("strategy: micro is %d and the optimizer accumulates %d: leave one of them out",
				out.Micro, o.Accumulate)
		}
		out.Micro = o.Accumulate
	}
	return &out, nil
}

// EagerConfig is the optimizer as eager.NewOptimizer takes it.
func (o Optimizer) EagerConfig() (optim.Optimizer, eager.Config, error) {
	c := eager.Config{Schedule: o.Schedule, ClipNorm: o.ClipNorm}
	if o.Sharding != nil {
		c.Sharding = eager.Sharding{Stage: o.Sharding.zero(), Axis: o.Sharding.axis()}
	}
	if o.Accumulate > 1 {
		return nil, c, fmt.Errorf("optimizer: it accumulates %d: in a loop of one's own call Backward that often before Step, and leave Accumulate out", o.Accumulate)
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
	c.Strategy, err = o.strategy(c.Strategy)
	return err
}
