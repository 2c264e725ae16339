package step

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Step is a training step, planned for every device.
type Step struct {
	c       Config
	lowered *pipeline.Schedule
	// sections is the stages, for each size of micro-batch.
	sections      [][]*section
	update        *updater
	updateProgram *spmd.Program
	tapes         []*tape // by device
	exes          map[exeKey]*cpu.Executable
}

type exeKey struct {
	f       *ir.Func
	donated string
}

// New plans a step. Nothing of it runs yet, and no memory for tensors is taken.
func New(c Config) (*Step, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	// Nothing runs at once with something else on a device here, so pairs of actions are taken one after the
	// other.
	c.Schedule = pipeline.Unjoin(c.Schedule)
	lowered, err := pipeline.Lower(c.Schedule)
	if err != nil {
		return nil, err
	}
	s := &Step{c: c, lowered: lowered, exes: map[exeKey]*cpu.Executable{}}
	for _, f := range c.Forwards {
		list, err := s.sectionsOf(f)
		if err != nil {
			return nil, err
		}
		s.sections = append(s.sections, list)
	}
	if s.update, s.updateProgram, err = newUpdate(&s.c, s.sections[0]); err != nil {
		return nil, err
	}
	for rank, m := range c.Meshes {
		for _, id := range m.Devices() {
			t, err := s.newTape(id, rank)
			if err != nil {
				return nil, err
			}
			for len(s.tapes) <= id {
				s.tapes = append(s.tapes, nil)
			}
			s.tapes[id] = t
		}
	}
	return s, s.match()
}

// sectionsOf splits a forward program and lays its stages on their meshes, one after the other: each takes
// what the one before hands on in its layout there.
func (s *Step) sectionsOf(f *ir.Func) ([]*section, error) {
	cuts, err := s.c.cuts(f)
	if err != nil {
		return nil, err
	}
	stages, err := stage.Split(f, stage.Config{Weights: len(s.c.Weights), Cuts: cuts, Use: s.use,
		Sum: s.c.SumType})
	if err != nil {
		return nil, err
	}
	var list []*section
	var in []mesh.Spec
	for i, st := range stages {
		var sums []mesh.Spec
		if len(s.sections) > 0 {
			sums = s.sections[0][i].sums
		}
		x, err := newSection(&s.c, st, i, in, sums)
		if err != nil {
			return nil, err
		}
		list, in = append(list, x), x.outSpecs()
	}
	return list, nil
}

// use gathers a weight for computation where it rests otherwise.
func (s *Step) use(stageNumber, weight int, x *ir.Value) *ir.Value {
	w := s.c.Weights[weight]
	if w.Use.Equal(w.Rest) {
		return x
	}
	return op.Constrain(x, s.c.Meshes[s.c.Schedule.Place[stageNumber]], mesh.Closed(w.Use))
}

// compiled is a device's program with its memory planned; devices with equal programs share the plan.
func (s *Step) compiled(p *spmd.Program, device int, donated []int) (*cpu.Executable, error) {
	f, err := p.Local(device)
	if err != nil {
		return nil, err
	}
	k := exeKey{f, fmt.Sprint(donated)}
	e := s.exes[k]
	if e == nil {
		if f, err = bucket(f); err != nil {
			return nil, err
		}
		if s.c.Overlap == Overlapped {
			if f, err = overlap(f); err != nil {
				return nil, err
			}
		}
		if e, err = cpu.NewPlan(f, cpu.Options{Donate: donated}); err != nil {
			return nil, err
		}
		s.exes[k] = e
	}
	return e, nil
}

// Devices is how many devices the step needs.
func (s *Step) Devices() int { return len(s.tapes) }

// Memory is what a device needs: what Start then takes.
func (s *Step) Memory(device int) Memory { return s.tapes[device].memory() }
