package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// builder makes a plan from a config.
type builder struct {
	c    Config
	plan *Plan
	// sections holds the stages, for each size of micro-batch.
	sections      [][]*section
	homes         []home
	update        *updater
	updateProgram *spmd.Program
	// numbers maps equal programs to their index in the plan, parts marks those that are listed there.
	numbers map[programKey]int
	parts   map[*part]bool
	// offloaded marks the weights and slots that are offloaded.
	offloaded map[bufferKey]bool
}

// programKey identifies a device's program, so that devices with equal ones share it.
type programKey struct {
	f                         *ir.Func
	donated, spent, offloaded string
}

// New plans a training step. Nothing runs and no tensor memory is allocated.
func New(c Config) (*Plan, error) {
	defer fault.Pass("plan of the step", c)
	if err := c.check(); err != nil {
		return nil, err
	}
	// Devices do not overlap actions here, so joined pairs are run one after the other.
	c.Schedule = pipeline.Unjoin(c.Schedule)
	lowered, err := pipeline.Lower(c.Schedule)
	if err != nil {
		return nil, err
	}
	b := newBuilder(c, Train, lowered)
	if err := b.stages(stage.Split); err != nil {
		return nil, err
	}
	if b.update, b.updateProgram, err = newUpdate(b, b.sections[0]); err != nil {
		return nil, err
	}
	if err := b.chooseOffloaded(); err != nil {
		return nil, err
	}
	return b.finish()
}

// NewForward plans a forward pass: the tapes of a step without the backward pass. The programs may return
// anything; of the config it reads neither the settings of gradients nor the update. A batch may have fewer
// micro-batches than the schedule.
func NewForward(c Config) (*Plan, error) {
	defer fault.Pass("plan of the forward pass", c)
	if err := c.checkParams(); err != nil {
		return nil, err
	}
	c.Schedule = pipeline.ForwardHalf(c.Schedule, len(c.Variant))
	b := newBuilder(c, ForwardPass, c.Schedule)
	if err := b.stages(stage.Forward); err != nil {
		return nil, err
	}
	b.homes = homes(&b.c, b.sections[0])
	last := len(b.sections[0]) - 1
	for _, list := range b.sections {
		b.plan.Results = append(b.plan.Results, list[last].returned())
	}
	return b.finish()
}

func newBuilder(c Config, kind Kind, lowered *pipeline.Schedule) *builder {
	p := &Plan{Kind: kind, Meshes: c.Meshes, Schedule: lowered, Variant: c.Variant, AsIs: c.AsIs}
	if kind == Train {
		p.Scalars = c.Update.Scalars
	}
	for _, f := range c.Forwards {
		var types []ir.Type
		for _, v := range f.Params()[len(c.Weights):] {
			types = append(types, v.Type())
		}
		p.Inputs = append(p.Inputs, types)
	}
	for i, rank := range c.Schedule.Place {
		p.Stages = append(p.Stages, Stage{Rank: rank})
		if i > 0 {
			p.Stages[i].Begin = c.Cuts[i-1]
		}
	}
	return &builder{c: c, plan: p, numbers: map[programKey]int{}, parts: map[*part]bool{}}
}

// stages makes the stages for every size of micro-batch.
func (b *builder) stages(split func(*ir.Func, stage.Config) ([]*stage.Stage, error)) error {
	for _, f := range b.c.Forwards {
		cuts, err := b.c.cuts(f)
		if err != nil {
			return err
		}
		stages, err := split(
			f,
			stage.Config{Weights: len(b.c.Weights), Cuts: cuts, Use: b.use, Skip: b.skip, Optimize: b.c.Program,
				Sum: b.c.SumType},
		)
		if err != nil {
			return err
		}
		list, err := b.sectionsOf(stages)
		if err != nil {
			return err
		}
		b.sections = append(b.sections, list)
	}
	return nil
}

// sectionsOf places stages on their meshes, one after the other: each receives the previous one's outputs in
// their layout.
func (b *builder) sectionsOf(stages []*stage.Stage) ([]*section, error) {
	var list []*section
	var in []op.Layout
	for i, st := range stages {
		var sums []mesh.Spec
		if len(b.sections) > 0 {
			sums = b.sections[0][i].sums
		}
		x, err := newSection(&b.c, st, i, in, sums)
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
		list, in = append(list, x), x.outLayouts()
	}
	return list, nil
}

// use gathers a weight for computation if it is stored in another layout.
func (b *builder) use(stageNumber, weight int, x *ir.Value) *ir.Value {
	l := b.c.layouts(weight, b.c.Schedule.Place[stageNumber])
	if l.Use.Equal(l.Rest) {
		return x
	}
	return op.Constrain(x, l.Mesh, mesh.Closed(l.Use))
}

// skip reports whether a stage ignores a constraint: what depends on no weight is computed by every stage
// that needs it, on its own devices, whatever was requested for another stage.
func (b *builder) skip(stageNumber int, n *ir.Node) bool {
	c, ok := n.Op().(op.Constrainer)
	if !ok {
		return false
	}
	m, _, err := c.Constraint()
	return err == nil && !b.c.Meshes[b.c.Schedule.Place[stageNumber]].Covers(m)
}

// finish writes the tapes and checks them against each other.
func (b *builder) finish() (*Plan, error) {
	p := b.plan
	for i, w := range b.c.Weights {
		s := State{Weight: w, Home: b.homes[i].rank, Copies: b.homes[i].others}
		if p.Kind == Train {
			s.Slots = b.c.Update.Slots(i)
		}
		p.Weights = append(p.Weights, s)
	}
	for rank, m := range p.Meshes {
		for _, id := range m.Devices() {
			t, err := b.newTape(id, rank)
			if err != nil {
				return nil, err
			}
			p.add(t)
		}
	}
	slices.SortStableFunc(p.Parts, func(x, y *Part) int { return x.order() - y.order() })
	if b.updateProgram != nil {
		p.Parts = append(p.Parts, b.updatePart())
	}
	return p, p.match()
}

// add stores a tape at its device's number.
func (p *Plan) add(t *tape) {
	for len(p.tapes) <= t.device {
		p.tapes = append(p.tapes, nil)
	}
	p.tapes[t.device] = t
}

// compiled returns a device's program with its memory planned, by its number; devices with equal programs
// share it.
func (b *builder) compiled(p *spmd.Program, device int, g memoryReuse, offloaded cpu.Offloaded) (int, error) {
	f, err := p.Local(device)
	if err != nil {
		return 0, err
	}
	k := programKey{f, fmt.Sprint(g.donated), fmt.Sprint(g.spent), offloadText(offloaded)}
	if i, ok := b.numbers[k]; ok {
		return i, nil
	}
	if f, err = b.communicating(f, p.Crosses()); err != nil {
		return 0, err
	}
	if f, err = accumulateEarly(f); err != nil {
		return 0, err
	}
	if b.c.Local != nil {
		if f, err = b.c.Local(f); err != nil {
			return 0, err
		}
	}
	b.numbers[k] = len(b.plan.programs)
	return b.numbers[k], b.plan.compile(f, g, offloaded)
}

// communicating returns a device's program with its collectives bucketed, split by hosts, delayed and started
// ahead. If values cross from one mesh to another, no gather is delayed: a device of both meshes has other
// nodes than one of a single mesh, and would wait for it at another collective.
func (b *builder) communicating(f *ir.Func, crosses bool) (*ir.Func, error) {
	f, err := bucket(f, b.c.bucketOf)
	if err == nil && b.c.Host > 0 {
		f, err = hierarchical(f, b.c.Host)
	}
	if err == nil && !crosses {
		f, err = gatherLate(f)
	}
	if err != nil || b.c.Overlap == NoOverlap {
		return f, err
	}
	if b.c.Overlap == FullOverlap {
		return overlap(f, nil)
	}
	return overlap(f, b.c.worthwhile(f))
}

// compile plans the memory of a program and adds it to the plan's.
func (p *Plan) compile(f *ir.Func, g memoryReuse, offloaded cpu.Offloaded) error {
	o := cpu.Options{Donate: g.donated, Spend: g.spent, NoFuse: p.Backend || p.AsIs}
	e, err := cpu.NewOffloadPlan(f, o, offloaded)
	p.programs = append(p.programs, &program{e, g, offloaded})
	return err
}
