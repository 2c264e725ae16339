package galley

import (
	"fmt"

	"github.com/galley-ml/galley/cost"
	"github.com/galley-ml/galley/internal/fault"
)

// Cost is what a training step, or a forward pass, takes, known before it runs.
type Cost = cost.Cost

// DeviceCost is one device's share.
type DeviceCost = cost.Device

// Cost plans a step for batches of these types and tells what it takes. Nothing runs, and no memory for
// tensors is taken.
func (t *Trainer) Cost(batch ...Type) (c *Cost, err error) {
	defer fault.Recover("cost of a step", &err)
	p, err := t.exec.Plan(batch...)
	return p.Cost(), err
}

// Cost compiles the pass for batches of these types and tells what it takes. Nothing runs.
func (f *Forward) Cost(batch ...Type) (c *Cost, err error) {
	defer fault.Recover("cost of a forward pass", &err)
	if len(batch) == 0 {
		return nil, fmt.Errorf("forward: want the types of a batch")
	}
	p, err := f.pass.Plan(batch...)
	return p.Cost(), err
}
