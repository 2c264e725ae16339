package branches

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
)

// Plan returns the plan of a step on batches of these types.
func (e *Executor) Plan(batch ...ir.Type) (*executor.Plan, error) { return Plan(e.c, batch...) }

// Plan returns the plan of an executor for this config, whose parameters need no values.
func Plan(c executor.Config, batch ...ir.Type) (*executor.Plan, error) {
	s, err := check(c)
	if err != nil {
		return nil, err
	}
	p, err := newProgram(c, batch)
	if err != nil {
		return nil, err
	}
	used := p.Devices() // one, if no message is worth its cost
	both, err := mesh.New([]mesh.Axis{{Name: "branch", Size: len(used)}}, used...)
	if err != nil {
		return nil, err
	}
	state := c.StatePieces()
	call := step.Call{When: step.AsWhole, Donated: executor.UpTo(0, len(state)), Part: step.PartOf(p.Program),
		Params:  slices.Concat(state, []step.Piece{step.ScalarPiece(0), step.ScalarPiece(1)}),
		Results: slices.Concat([]step.Piece{step.ReportPiece(0), step.ReportPiece(1)}, state),
		Of:      func(device int) (params, results []int) { return p.ParamsOf(device), p.ResultsOf(device) },
	}
	for i := range batch {
		call.Params = append(call.Params, step.InputPiece(0, i))
	}
	var local [2]func() (*ir.Func, error)
	for d := range local {
		local[d] = sync.OnceValues(func() (*ir.Func, error) {
			f, err := p.Local(d)
			if err != nil {
				return nil, err
			}
			return fused(c)(f)
		})
	}
	call.Local = func(device int) (*ir.Func, error) { return local[device]() }
	w, err := step.NewWhole(step.WholeConfig{Mesh: both, Weights: c.WholeWeights(), Variant: []int{0},
		Inputs: [][]ir.Type{batch}, Scalars: []ir.Type{c.ScalarType(), c.ScalarType()}, Calls: []step.Call{call}})
	if err != nil {
		return nil, err
	}
	return executor.PlanOf(s, w), nil
}
