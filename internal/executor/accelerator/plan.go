package accelerator

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// Plan returns the programs that a step on batches of these types runs, and what passes between them. Its
// memory is that of host devices; what the backend needs is returned by Memory after the first step.
func (r *Executor) Plan(batch ...ir.Type) (*executor.Plan, error) {
	q, s := r.planCopy(), strategy.Strategy{}
	if q.micro > 1 {
		s.Micro = q.micro
	}
	if q.group != nil {
		s = q.group.Strategy
	}
	plan := q.planWhole
	if q.micro > 1 {
		plan = q.planMicros
	}
	p, err := plan(batch)
	if err != nil {
		return nil, err
	}
	return executor.PlanOf(s, p), nil
}

// Plan returns the plan of an executor for this config, whose parameters need no values.
func Plan(c executor.Config, batch ...ir.Type) (*executor.Plan, error) {
	r, err := prepared(c)
	if err != nil {
		return nil, err
	}
	return r.Plan(batch...)
}

// planCopy returns a copy of the executor without state, so that decisions of the plan do not affect the run.
func (r *Executor) planCopy() *Executor {
	q := &Executor{b: r.b, group: r.group, micro: r.micro, model: r.model, c: r.c, fused: r.fused,
		stateFused: r.stateFused, split: r.split, chosen: r.chosen, owned: r.owned, losses: map[string]*cutLoss{}}
	if r.group != nil {
		g := *r.group
		q.group = &g
	}
	return q
}

// planWhole returns the step as one program.
func (r *Executor) planWhole(batch []ir.Type) (*step.Plan, error) {
	if err := r.planFused(batch); err != nil {
		return nil, err
	}
	p, at, err := r.program(batch)
	if err != nil {
		return nil, err
	}
	w := r.planConfig()
	call, err := r.planCall(w.Mesh, p, at)
	if err != nil {
		return nil, err
	}
	state := r.c.StatePieces()
	for k, i := range r.split {
		whole := &w.Weights[i]
		state = append(state, step.WeightPiece(len(r.c.Params)+k))
		upper := step.State{Weight: whole.Weight}
		upper.Name, upper.Type.DType = whole.Name+".upper", array.BF16
		whole.Name, whole.Type.DType = whole.Name+".lower", array.I16
		w.Weights = append(w.Weights, upper)
	}
	call.When, call.Donated = step.AsWhole, executor.UpTo(0, len(state))
	call.Params = slices.Concat(state, []step.Piece{step.ScalarPiece(0), step.ScalarPiece(1)})
	call.Results = slices.Concat([]step.Piece{step.ReportPiece(0), step.ReportPiece(1)}, state)
	w.Variant, w.Inputs = []int{0}, [][]ir.Type{call.takeInputs(0)}
	w.Calls = []step.Call{call.Call}
	return step.NewWhole(w)
}

// planFused determines which parameters would be fused.
func (r *Executor) planFused(batch []ir.Type) error {
	if r.stateFused {
		return nil
	}
	j, err := r.fusing(batch)
	if j != nil {
		r.fused, r.c = j, j.config(r.c)
		r.owned = len(r.c.Params) * (1 + r.c.Optimizer.Slots())
	}
	return err
}

// planMicros returns the step as programs of micro-batches, preceded by zeros and followed by the update.
func (r *Executor) planMicros(batch []ir.Type) (*step.Plan, error) {
	loss, err := r.cutLoss(batch)
	if err != nil {
		return nil, err
	}
	w, n := r.planConfig(), len(r.model.Params)
	w.Variant = loss.variant
	var parts []*plannedCall
	for _, f := range loss.programs {
		x, err := r.planPart(w.Mesh, f, len(batch))
		if err != nil {
			return nil, err
		}
		parts, w.Inputs = append(parts, x), append(w.Inputs, x.takeInputs(0))
	}
	sums := []step.Piece{step.TotalPiece(0), step.TotalPiece(1)}
	for i := range n {
		sums = append(sums, step.SumPiece(i))
	}
	zeros, update, err := r.planEnds(w.Mesh)
	if err != nil {
		return nil, err
	}
	zeros.When, zeros.Results = step.AtBegin, sums
	w.Calls = append(w.Calls, zeros.Call)
	for m, variant := range loss.variant {
		x := *parts[variant]
		x.Micro, x.Donated = m, executor.UpTo(n, n+len(sums))
		x.Params, x.Results = slices.Concat(r.model.StatePieces()[:n], sums), sums
		x.takeInputs(m)
		w.Calls = append(w.Calls, x.Call)
	}
	state := r.model.StatePieces()
	update.When, update.Donated = step.AtUpdate, executor.UpTo(0, len(state)+len(sums))
	update.Params = slices.Concat(state, sums, []step.Piece{step.ScalarPiece(0), step.ScalarPiece(1)})
	update.Results = slices.Concat([]step.Piece{step.ReportPiece(0), step.ReportPiece(1)}, state)
	w.Calls = append(w.Calls, update.Call)
	return step.NewWhole(w)
}

// planPart returns the program for micro-batches with the given loss program.
func (r *Executor) planPart(m *mesh.Mesh, loss *ir.Func, batch int) (*plannedCall, error) {
	p, err := r.partProgram(loss)
	if err != nil {
		return nil, err
	}
	var at layouts
	if r.group != nil {
		inputs, _ := r.group.Inputs(loss, batch)
		if at, err = r.group.partLayouts(p, inputs); err != nil {
			return nil, err
		}
	}
	x, err := r.planCall(m, p, at)
	if err == nil {
		x.given = 2*len(r.model.Params) + losses
	}
	return x, err
}

// planEnds returns the programs that run before and after the micro-batches.
func (r *Executor) planEnds(m *mesh.Mesh) (zeros, update *plannedCall, err error) {
	p, err := sumsProgram(r.model)
	if err == nil {
		zeros, err = r.planCall(m, p, layouts{results: r.group.zeroSpecs()})
	}
	if err != nil {
		return nil, nil, err
	}
	if p, err = r.updateProgram(); err == nil {
		update, err = r.planCall(m, p, r.group.updateLayouts())
	}
	return zeros, update, err
}

// planConfig returns the settings that all programs of a step share.
func (r *Executor) planConfig() step.WholeConfig {
	w := step.WholeConfig{Backend: true, Weights: r.c.WholeWeights(),
		Scalars: []ir.Type{r.c.ScalarType(), r.c.ScalarType()}}
	if r.group == nil {
		w.Mesh = executor.OneDevice()
		return w
	}
	w.Mesh = r.group.mesh()
	for i, x := range r.group.weights {
		w.Weights[i].Weight = x
	}
	return w
}

// plannedCall is a call whose program's first parameters have been assigned.
type plannedCall struct {
	step.Call
	given int
}

// takeInputs assigns a call's remaining parameters to tensors of a micro-batch and returns their types.
func (x *plannedCall) takeInputs(micro int) (types []ir.Type) {
	for i, v := range x.Part.Func.Params()[max(x.given, len(x.Params)):] {
		x.Params, types = append(x.Params, step.InputPiece(micro, i)), append(types, v.Type())
	}
	return types
}

// planCall plans the call of a program on the devices.
func (r *Executor) planCall(m *mesh.Mesh, p *ir.Func, at layouts) (*plannedCall, error) {
	if r.group == nil {
		local := func(int) (*ir.Func, error) { return p, nil }
		return &plannedCall{Call: step.Call{Part: step.PartOn(p, m), Local: local}}, nil
	}
	p, at, err := uncaptured(p, at)
	if err != nil {
		return nil, err
	}
	x, err := r.group.partition(p, at)
	if err != nil {
		return nil, err
	}
	return &plannedCall{Call: step.Call{Part: step.PartOf(x), Local: x.Local}}, nil
}
