package galley

import (
	"fmt"

	"github.com/galley-ml/galley/cost"
	"github.com/galley-ml/galley/internal/fault"
)

// Cost is the memory, compute, communication and (if it can be estimated) time of a training step or forward
// pass, computed without running it.
type Cost = cost.Cost

// DeviceCost is the share of a Cost that falls on one device.
type DeviceCost = cost.Device

// Cost plans a training step for batches of the given types and returns what it costs. Nothing runs and no
// tensor memory is allocated.
func (t *Trainer) Cost(batch ...Type) (c *Cost, err error) {
	defer fault.Recover("cost of a step", &err)
	p, err := t.exec.Plan(batch...)
	return p.Cost(), err
}

// Cost compiles the forward pass for batches of the given types and returns what it costs. Nothing runs.
func (f *Forward) Cost(batch ...Type) (c *Cost, err error) {
	defer fault.Recover("cost of a forward pass", &err)
	if len(batch) == 0 {
		return nil, fmt.Errorf("forward: want the types of a batch")
	}
	p, err := f.pass.Plan(batch...)
	return p.Cost(), err
}
