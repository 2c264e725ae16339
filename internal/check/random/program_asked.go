package random

import (
	"math/rand/v2"
	"regexp"
	"slices"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// asks draws a strategy for the program, with its own random numbers.
func (d *drawer) asks() {
	r := rand.New(rand.NewPCG(29, d.Seed))
	d.Asked = strategy.Strategy{
		Micro:     pick(r, 1, 1, 2),
		Recompute: pick[strategy.Recompute](r, "none", "selective", "full"),
		Overlap:   pick(r, strategy.Auto, strategy.On, strategy.Off),
		Bucket:    pick(r, 0, 1, 300, 1<<20), Host: pick(r, 0, 0, 2, 3),
		Offload: pick(r, strategy.Offload{}, strategy.Offload{}, strategy.Offload{Optimizer: 0.5},
			strategy.Offload{Activations: 1, Parameters: 0.4}),
	}
	var axes []string
	for _, w := range d.Weights {
		if w.At.Mesh < 0 {
			continue
		}
		for _, a := range d.Meshes[w.At.Mesh].Axes() {
			if a.Size > 1 && !slices.Contains(axes, a.Name) {
				axes = append(axes, a.Name)
			}
		}
	}
	if len(axes) > 0 && r.IntN(3) > 0 {
		d.ZeroAxis, d.Asked.Zero = pick(r, axes...), 1+r.IntN(3)
	}
}

// stage returns the ZeRO stage; nil for none.
func (p *Annotated) stage() optim.ShardingStage {
	axis := p.ZeroAxis
	return []optim.ShardingStage{nil, optim.ShardingStage1{Axis: axis}, optim.ShardingStage2{Axis: axis},
		optim.ShardingStage3{Axis: axis}}[p.Asked.Zero]
}

// eagerStage returns the ZeRO stage for the eager loop, which requires all parameters on meshes with the
// axis.
func (p *Annotated) eagerStage() optim.ShardingStage {
	for _, w := range p.Weights {
		if w.At.Mesh < 0 {
			return nil
		}
		if _, ok := p.Meshes[w.At.Mesh].Axis(p.ZeroAxis); !ok {
			return nil
		}
	}
	return p.stage()
}

// uncut matches the error that micro-batches would change the results, with its line.
var uncut = regexp.MustCompile(`\.go:\d+: .*would change with the size of micro-batches`)

// Under trains the program by ToStatic with its strategy. A program that cannot be split into micro-batches,
// which is an error with the line, is trained without them.
func (p *Annotated) Under() (*Trained, error) {
	s := p.Asked
	s.Zero = 0 // the optimizer says it
	t, err := p.under(&s)
	if err != nil && s.Micro > 1 && uncut.MatchString(err.Error()) {
		s.Micro = 1
		t, err = p.under(&s)
	}
	return t, err
}

func (p *Annotated) under(s *strategy.Strategy) (*Trained, error) {
	var o optim.Optimizer = &galley.Optimizer{Optimizer: p.adamW(), Schedule: optim.Constant{LR: 1e-2}}
	if st := p.stage(); st != nil {
		sharded, err := galley.ShardOptimizer(o, st)
		if err != nil {
			return nil, err
		}
		o = sharded
	}
	return p.compiled(o, programSteps, s)
}

// besides reports whether a layout is the wanted one, except for what ZeRO shards additionally, from a stage
// on.
func besides(zero, from int, m *mesh.Mesh, got, want mesh.Spec) bool {
	got, want = real(m, got), real(m, want)
	if zero < from {
		return got.Equal(want)
	}
	for d := range want.Dims {
		if len(got.Dims[d]) < len(want.Dims[d]) || !slices.Equal(got.Dims[d][:len(want.Dims[d])], want.Dims[d]) {
			return false
		}
	}
	return true
}
