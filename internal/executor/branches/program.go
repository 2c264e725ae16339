package branches

import (
	"fmt"
	"runtime"

	"github.com/galley-ml/galley/internal/branch"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// check returns an error for settings of the strategy or config that this executor does not support.
func check(c executor.Config) (s strategy.Strategy, err error) {
	if s, err = c.Strategy.WithDefaults(); err != nil {
		return s, err
	}
	switch {
	case len(c.Annotations) > 0 || c.Layers != nil || c.Annotated():
		err = fmt.Errorf("annotations or a plan by Parallelize: want none, because the search places branches")
	case len(c.RankBackends) > 0 || len(c.Shares) > 0:
		err = fmt.Errorf("backends or shares: want none")
	case c.Mode == executor.Eager:
		err = fmt.Errorf("mode eager: want Static")
	}
	if err != nil {
		return s, fmt.Errorf("strategy: branches=%d with %w", s.Branches, err)
	}
	return s, nil
}

// program is a step on two devices.
type program struct {
	*spmd.Program
	// found is the placement of the nodes, and its estimated time.
	found *branch.Plan
}

// newProgram traces the step for batches of these types and places its nodes on two devices.
func newProgram(c executor.Config, batch []ir.Type) (*program, error) {
	p, err := c.TraceStep(batch)
	if err == nil {
		err = layout.CheckConstraints(p)
	}
	if err == nil {
		p, err = optimize(c, p)
	}
	if err != nil {
		return nil, err
	}
	meshes := devices()
	next := map[int]int{}
	for i := executor.Metrics; i < len(p.Results()); i++ {
		next[i] = i - executor.Metrics
	}
	prices := prices(c)
	found := branch.Find(p, branch.Config{Prices: prices, Next: next})
	if p, err = found.Apply(p, meshes); err != nil {
		return nil, err
	}
	r, err := shard.Infer(p, shard.Config{Mesh: meshes[0]})
	if err != nil {
		return nil, err
	}
	s, err := spmd.Partition(p, r.Specs, meshes[0], spmd.Config{Prices: prices, Meshes: r.Meshes,
		Results: make([]mesh.Spec, len(p.Results()))})
	return &program{s, found}, err
}

// optimize fuses the step before it is placed on devices, so that each fused loop is placed as a whole: ops
// placed one by one would have messages between them, which prevent fusion.
func optimize(c executor.Config, p *ir.Func) (*ir.Func, error) {
	p, err := c.OptimizeProgram(p)
	if err != nil {
		return nil, err
	}
	if p, err = pass.Fuse(p); err != nil {
		return nil, err
	}
	return cpu.Loops(p)
}

// prices returns the costs that the placement search uses: by default those of a typical machine, each device
// with half of the cores.
func prices(c executor.Config) spmd.Prices {
	if c.Prices != nil {
		return *c.Prices
	}
	cores := runtime.GOMAXPROCS(0)
	host := plan.UsualHost(cores)
	return step.PricesOf(step.Machine{Prices: host, Latency: host.Idle}, max(1, cores/2))
}

// devices returns the two devices, each as a mesh of one.
func devices() (list [2]*mesh.Mesh) {
	for i := range list {
		m, err := mesh.New([]mesh.Axis{{Name: strategy.DataAxis, Size: 1}}, i)
		if err != nil {
			panic(err) // cannot fail: it is a valid mesh
		}
		list[i] = m
	}
	return list
}
