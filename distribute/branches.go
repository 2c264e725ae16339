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

// BranchConfig configures Branches.
type BranchConfig struct {
	// Meshes are the two places, of one device each. Further devices of a mesh, such as those of data
	// parallelism, are ignored.
	Meshes [2]*mesh.Mesh
	// Next has the meaning of Config.Next.
	Next   map[int]int
	Prices Prices
}

// BranchPlan is the result of Branches.
type BranchPlan struct {
	// Found reports that the program uses both devices; if it is false, the predicted saving was too small.
	Found bool
	// Seconds is the predicted time on both devices, Serial that on one.
	Seconds, Serial float64
	// Messages is the number of tensors that move between devices per run, Bytes their size.
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

// Branches finds independent parts of a program and runs them on two devices if that is predicted to pay. The
// result is the program with reshards where tensors move, to be passed to New with the first of the meshes.
// Parameters and results keep their order, and results do not change.
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
