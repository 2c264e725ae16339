package distribute

import (
	"fmt"

	"github.com/galley-ml/galley/internal/branch"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/mesh"
)

// BranchConfig says where branches may run.
type BranchConfig struct {
	// Meshes are of one device each. Others of a mesh, such as those of data parallelism, are not looked at.
	Meshes [2]*mesh.Mesh
	// Next is as in Config.
	Next   map[int]int
	Prices Prices
}

// BranchPlan is what Branches has found.
type BranchPlan struct {
	// Found says that the program is on two devices; without it two were predicted to save too little.
	Found bool
	// Seconds is the predicted time of a run on both devices, Serial that on one.
	Seconds, Serial float64
	// Messages is how many tensors change devices in a run, Bytes how much that is.
	Messages int
	Bytes    float64
}

func (p BranchPlan) String() string {
	if !p.Found {
		return fmt.Sprintf(
			"one device: %s; two are predicted to take %s",
			units.Seconds(p.Serial),
			units.Seconds(p.Seconds),
		)
	}
	return fmt.Sprintf(
		"two devices: %s predicted, one %s; %d tensors of %s change devices",
		units.Seconds(p.Seconds),
		units.Seconds(p.Serial),
		p.Messages,
		units.Bytes(p.Bytes),
	)
}

// Branches finds parts of a program that do not depend on each other and puts them on two devices, if that is
// predicted to pay: the result is the program with reshards where tensors change devices, for New with the
// first of the meshes. Parameters and results keep their numbers, and no number changes.
func Branches(p *ir.Func, c BranchConfig) (q *ir.Func, plan BranchPlan, err error) {
	defer fault.Recover(p.Name(), &err)
	for i, m := range c.Meshes {
		if m == nil || m.Size() != 1 {
			return nil, plan, fmt.Errorf("branches of %s: mesh %d is %v: want one of one device", p.Name(), i, m)
		}
	}
	if q, err = pass.Optimize(p); err != nil {
		return nil, plan, err
	}
	found := branch.Find(q, branch.Config{Prices: c.Prices, Next: c.Next})
	plan = BranchPlan{found.Pays(), found.Seconds, found.Serial, found.Messages, found.Bytes}
	if plan.Found {
		q, err = found.Apply(q, c.Meshes)
	}
	return q, plan, err
}
