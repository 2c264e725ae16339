package tapes

import (
	"slices"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// planner turns a config and its strategy into a step on many devices.
type planner struct {
	c executor.Config
	*layout.Layout
}

// newStep plans the step for batches of these types, and how to split their rows into micro-batches.
func (h *planner) newStep(batch []ir.Type) (*step.Plan, *executor.Cutting, error) {
	rows, err := executor.RowsIn(batch)
	if err != nil {
		return nil, nil, err
	}
	c := step.Config{Marks: h.Mark, Overlap: h.overlap(), Bucket: h.Strategy.Bucket, Host: h.Strategy.Host,
		Offload: offloadFractions(h.Strategy.Offload)}
	cut, err := h.traceForward(&c, batch, rows)
	if err != nil {
		return nil, nil, err
	}
	if err := h.plan(&c); err != nil {
		return nil, nil, err
	}
	s, err := step.New(c)
	return s, cut, err
}

// plan sets the parts of a step other than the forward pass.
func (h *planner) plan(c *step.Config) error {
	c.Update = h.update()
	c.SumType = func(w int) ir.Type {
		return ir.Type{DType: h.c.Params[w].Type.DType.Compute(), Shape: h.c.Params[w].Type.Shape}
	}
	return h.recompute(c)
}

// traceForward traces the loss of a batch and turns it into programs of micro-batches, which return the sum
// of losses and its divisor, so that a step's loss is that of the whole batch, however it is split.
func (h *planner) traceForward(c *step.Config, batch []ir.Type, rows int) (*executor.Cutting, error) {
	b := ir.NewBuilder("forward")
	var params []*op.Tensor
	for _, p := range h.c.Params {
		params = append(params, b.Param(p.Name, h.Entering(p)))
	}
	b.CaptureAs(h.castToCompute)
	in, number := executor.BatchParams(b, batch), executor.NewStepNumber(b)
	loss := executor.CheckedLoss(h.c.LossOf(params, h.castBatch(in), number.Tensor), params)
	if loss.Err() != nil {
		return nil, loss.Err()
	}
	forms := executor.LossForms(loss, params, rows)
	f, err := b.Build(forms...)
	if err != nil {
		return nil, err
	}
	p, err := h.Place(f)
	if err != nil {
		return nil, err
	}
	micros, err := executor.MicroRows(rows, h.Strategy.Micro)
	if err != nil {
		return nil, err
	}
	list, variant, cut, err := executor.CutProgram(p.Func, len(params), batch, micros, number,
		executor.FormIndex(forms)...)
	if err != nil {
		return nil, err
	}
	c.Variant = variant
	return cut, h.setLayouts(c, p, list, len(batch))
}

// setLayouts sets the layouts of micro-batch programs: where stages begin, and how their inputs are sharded.
// batch is the number of tensors of a batch.
func (h *planner) setLayouts(c *step.Config, placed *layout.Program, programs []*ir.Func,
	batch int) (err error) {
	c.Meshes, c.Schedule, c.SequenceParallel = h.Meshes, placed.Schedule, h.SequenceParallel()
	passes := h.c.Passes()
	c.Program = h.c.OptimizeProgram
	c.Local, c.AsIs = h.c.OptimizeLocal, passes.Explicit || !passes.Has(pass.LoopsName)
	for _, f := range programs {
		if f, err = h.Apply(f); err == nil {
			f, err = h.c.OptimizeProgram(f)
		}
		if err != nil {
			return err
		}
		c.Forwards = append(c.Forwards, f)
	}
	if c.Cuts = placed.Cuts; c.Cuts == nil && placed.Schedule.Stages > 1 {
		if c.Cuts, err = h.Cuts(c.Forwards[0]); err != nil {
			return err
		}
	}
	if c.Weights, err = h.Weights(c.Forwards[0]); err != nil {
		return err
	}
	c.Batch, c.BatchMeshes = h.Inputs(c.Forwards[0], batch)
	return nil
}

func (h *planner) overlap() step.Overlap {
	switch h.Strategy.Overlap {
	case strategy.On:
		return step.FullOverlap
	case strategy.Off:
		return step.NoOverlap
	}
	return step.AutoOverlap
}

// recompute turns the strategy's setting into policies for the layers of each stage.
func (h *planner) recompute(c *step.Config) error {
	policy := recomputeOf(h.Strategy)
	first := 0 // the index of a stage's first layer
	starts := []int{0}
	for _, cut := range c.Cuts {
		first, _ = nn.LayerOf(cut)
		starts = append(starts, first)
	}
	c.Between = executor.BetweenLayers
	c.Recompute = func(mark string) stage.Recompute {
		layer, ok := nn.LayerOf(mark)
		if !ok {
			return executor.PolicyOutside(policy(0))
		}
		at := 0
		for _, s := range starts {
			if s <= layer {
				at = layer - s
			}
		}
		return policy(at)
	}
	return nil
}

// recomputeOf returns the recomputation policy of each layer, by its index within its stage.
func recomputeOf(s strategy.Strategy) func(layer int) stage.Recompute {
	limit := s.Recompute.Layers()
	policy := map[string]stage.Recompute{"selective": stage.RecomputeSelective,
		"full": stage.RecomputeFull}[s.Recompute.Mode()]
	return func(layer int) stage.Recompute {
		if limit >= 0 && layer >= limit {
			return stage.RecomputeNone
		}
		return policy
	}
}

// update returns the function that traces the optimizer.
func (h *planner) update() step.Update {
	scalar := h.c.ScalarType()
	return step.Update{
		Slots: func(w int) []ir.Type {
			return append(slices.Repeat([]ir.Type{h.c.Params[w].Type}, h.Masters()), h.c.SlotTypes(w)...)
		},
		Scalars: []ir.Type{scalar, scalar},
		Trace:   h.traceUpdate,
	}
}

func (h *planner) traceUpdate(in step.UpdateIn) (out step.UpdateOut) {
	dtype := in.Scalars[0].DType()
	s := optim.Step{LR: in.Scalars[0], Count: in.Scalars[1], Scale: op.Cast(in.Scale, dtype)}
	if h.c.ClipNorm > 0 {
		s.Scale = op.Mul(s.Scale, op.Cast(optim.ClipScale(in.Norm, h.c.ClipNorm), dtype))
	}
	for k := range in.Index {
		p, slots := in.Weights[k], in.Slots[k]
		if h.Masters() > 0 {
			p, slots = slots[0], slots[1:]
		}
		next, kept := h.c.Updated(in.Index[k], p, in.Grads[k], slots, s)
		if h.Strategy.AMP == "f16" { // a step whose gradients overflowed is skipped
			ok := op.IsFinite(in.Norm)
			next = op.Where(ok, next, p)
			for i := range kept {
				kept[i] = op.Where(ok, kept[i], slots[i])
			}
		}
		if h.Masters() > 0 {
			kept, next = append([]*op.Tensor{next}, kept...), op.Cast(next, in.Weights[k].DType())
		}
		out.Weights, out.Slots = append(out.Weights, next), append(out.Slots, kept)
	}
	return out
}
