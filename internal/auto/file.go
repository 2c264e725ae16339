package auto

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/mesh"
)

// File returns the plan in the form of a file.
func (p *Plan) File() (*planfile.Program, error) {
	hash, err := hashOf(p.config.Run, p.config.Batch)
	if err != nil {
		return nil, err
	}
	f := &planfile.Program{Version: planfile.ProgramVersion, Program: hash, Machine: p.machine.Name,
		Strategy: p.Strategy, Weights: map[string]string{}, Seconds: p.Seconds, Bound: p.Bound,
		Bytes: int64(p.Peak)}
	for i, s := range p.Weights {
		if !s.IsWhole() {
			f.Weights[p.config.Run.Params[i].Name] = mesh.Closed(s).String()
		}
	}
	for _, s := range p.Inputs {
		f.Inputs = append(f.Inputs, mesh.Closed(s).String())
	}
	return f, nil
}

// hashOf returns the hash of a run's forward program.
func hashOf(run executor.Config, batch []ir.Type) (string, error) {
	f, err := forward(run, batch)
	if err != nil {
		return "", err
	}
	return planfile.HashOf(f), nil
}

// forward returns the program of a run's loss.
func forward(run executor.Config, batch []ir.Type) (*ir.Func, error) {
	b := ir.NewBuilder("forward")
	params := run.WeightParams(b)
	in, number := executor.BatchParams(b, batch), executor.NewStepNumber(b)
	return b.Build(executor.CheckedLoss(run.LossOf(params, in, number.Tensor), params))
}

// Read returns the candidate of a file, for a run on batches of these types. It refuses a plan for another
// program.
func Read(f *planfile.Program, run executor.Config, batch []ir.Type) (c Candidate, err error) {
	hash, err := hashOf(run, batch)
	if err != nil {
		return c, err
	}
	if hash != f.Program {
		return c, fmt.Errorf("plan: it is for program %s: this is %s: make a new one with galley.Plan", f.Program,
			hash)
	}
	c.Strategy = f.Strategy
	known := 0
	for _, p := range run.Params {
		spec := mesh.Whole(len(p.Type.Shape))
		if text, ok := f.Weights[p.Name]; ok {
			known++
			if spec, err = readSpec(text, p.Type); err != nil {
				return c, fmt.Errorf("plan: parameter %q: %w", p.Name, err)
			}
		}
		c.Weights = append(c.Weights, spec)
	}
	if known != len(f.Weights) || len(f.Inputs) != len(batch) {
		return c, fmt.Errorf("plan: it lays out %d parameters and %d tensors of a batch: this has %d of those "+
			"and %d tensors",
			len(f.Weights), len(f.Inputs), known, len(batch))
	}
	for i, t := range batch {
		spec, err := readSpec(f.Inputs[i], t)
		if err != nil {
			return c, fmt.Errorf("plan: tensor %d of the batch: %w", i, err)
		}
		c.Inputs = append(c.Inputs, spec)
	}
	return c, nil
}

// readSpec parses a layout of a tensor of a type.
func readSpec(text string, t ir.Type) (mesh.Spec, error) {
	s, err := mesh.ParseSharding(text)
	if err == nil && (len(s.Spec.Dims) != len(t.Shape) || len(s.Spec.Partial) > 0) {
		err = fmt.Errorf("layout %s of a tensor %v: want one of %d dims without sums", text, t, len(t.Shape))
	}
	return mesh.Spec{Dims: slices.Clone(s.Spec.Dims)}, err
}
