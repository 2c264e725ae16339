package galley

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// hybrid turns a trainer's config and a strategy into a step on many devices.
type hybrid struct {
	c        TrainerConfig
	s        Strategy
	meshes   []*mesh.Mesh
	schedule *pipeline.Schedule
	// planned is what a plan of layers came to in the last program that was traced.
	planned *planned
	// laid is how parameters lie by what the model itself asks of them, in the first program that was traced.
	laid map[string]mesh.Spec
}

func newHybrid(c TrainerConfig, s Strategy) (*hybrid, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	h := &hybrid{c: c, s: s}
	if h.meshes, err = s.Meshes(); err != nil {
		return nil, err
	}
	if h.schedule, err = s.Pipeline(); err != nil {
		return nil, err
	}
	return h, nil
}

// newStep plans the step for batches of these types, whose rows are cut.
func (h *hybrid) newStep(batch []Type) (*step.Step, *cutting, error) {
	rows, err := rowsIn(batch)
	if err != nil {
		return nil, nil, err
	}
	micros, err := microRows(rows, h.s.Micro)
	if err != nil {
		return nil, nil, err
	}
	c := step.Config{Meshes: h.meshes, Overlap: h.overlap(), Observe: h.c.Observe, DetectNaN: h.c.DetectNaN, Threads: h.c.Device.Threads(), Schedule: h.schedule, Marks: h.marks, Columns: h.columns()}
	cut, err := h.forwards(&c, batch, micros)
	if err != nil {
		return nil, nil, err
	}
	if err := h.plan(&c, len(batch)); err != nil {
		return nil, nil, err
	}
	s, err := step.New(c)
	return s, cut, err
}

// plan says how what a step's programs take lies, and what the step does besides.
func (h *hybrid) plan(c *step.Config, batch int) (err error) {
	if c.Cuts, err = h.cuts(c.Forwards[0]); err != nil {
		return err
	}
	if c.Weights, err = h.weights(c.Forwards[0]); err != nil {
		return err
	}
	c.Batch = h.batchShardings(c.Forwards[0], batch)
	if err := h.recompute(c); err != nil {
		return err
	}
	c.Update = h.update()
	c.SumType = func(w int) Type {
		return Type{DType: h.c.Params[w].Type.DType.Compute(), Shape: h.c.Params[w].Type.Shape}
	}
	c.Offload, err = offloadOf(h.s)
	return err
}

// forwards traces the loss of a batch and makes of it programs of micro-batches: the sum of losses and what it is divided by, so
// that a step's loss is that of the whole batch, however it is cut.
func (h *hybrid) forwards(c *step.Config, batch []Type, micros []int) (*cutting, error) {
	b := ir.NewBuilder("forward")
	var params []*Tensor
	for _, p := range h.c.Params {
		params = append(params, b.Param(p.Name, h.computed(p.Type)))
	}
	in, number := batchParams(b, batch), &stepNumber{b: b}
	loss := checkedLoss(h.c.lossOf(params, h.halved(in), number.tensor), params)
	if loss.Err() != nil {
		return nil, loss.Err()
	}
	rows, err := rowsIn(batch)
	if err != nil {
		return nil, err
	}
	forms := lossForms(loss, params, rows)
	f, err := b.Build(forms...)
	if err != nil {
		return nil, err
	}
	list, variant, cut, err := cutProgram(f, len(params), batch, micros, number, formIndex(forms)...)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if f, err = h.shaped(f); err == nil {
			f, err = pass.Optimize(f)
		}
		if err != nil {
			return nil, err
		}
		c.Forwards = append(c.Forwards, f)
	}
	c.Variant = variant
	return cut, nil
}

// cuts is the marks at which stages begin.
func (h *hybrid) cuts(f *Program) ([]string, error) {
	stages := h.schedule.Stages
	var layers []string
	for _, n := range f.Nodes() {
		if label, ok := op.Marked(n); ok {
			if _, ok := nn.LayerOf(label); ok {
				layers = append(layers, label)
			}
		}
	}
	if stages == 1 {
		return nil, nil
	}
	if h.planned != nil && h.planned.cuts != nil {
		return h.planned.cuts, nil
	}
	counts := h.s.Layers
	if counts == nil {
		if len(layers) < stages {
			return nil, tooFewLayers(len(layers), stages)
		}
		counts = evenly(len(layers), stages)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if len(counts) != stages || total != len(layers) {
		return nil, fmt.Errorf("strategy: layers of stages are %v: want %d numbers with the sum %d", counts, stages, len(layers))
	}
	var cuts []string
	at := 0
	for _, n := range counts[:stages-1] {
		at += n
		if at >= len(layers) {
			return nil, fmt.Errorf("strategy: layers of stages are %v: want the last one to have some", counts)
		}
		cuts = append(cuts, layers[at])
	}
	return cuts, nil
}

func tooFewLayers(layers, stages int) error {
	if layers == 0 {
		return fmt.Errorf("strategy: the loss has no layers to make %d stages of: want pp=1, or op.Mark(x, nn.LayerMark(i)) where layer i begins", stages)
	}
	return fmt.Errorf("strategy: %d layers cannot make %d stages: want pp·vpp of %d or less", layers, stages, layers)
}

// evenly is n things in k groups; the first and the last, which have the embedding and the head besides, are not the larger ones.
func evenly(n, k int) []int {
	list := slices.Repeat([]int{n / k}, k)
	for i := range n % k {
		list[(i+1)%k]++
	}
	return list
}

func (h *hybrid) overlap() step.Overlap {
	if h.s.Overlap {
		return step.Overlapped
	}
	return step.InTurn
}

// dataAxes is the axes along which devices see different data, those that a mesh has.
func (h *hybrid) dataAxes(names ...string) mesh.Axes {
	var axes mesh.Axes
	for _, name := range names {
		if a, ok := h.meshes[0].Axis(name); ok && a.Size > 1 {
			axes = append(axes, mesh.On(name)...)
		}
	}
	return axes
}

// marks is how the stream between layers lies: batches by the data axes, sequences by the context axis and, with sequence
// parallelism, the tensor axis.
func (h *hybrid) marks(label string) (mesh.Sharding, bool) {
	if !nn.IsStream(label) {
		return h.planned.marksOf(h.meshes[0], label)
	}
	sequence := []string{strategy.ContextAxis}
	if h.s.Sequence {
		sequence = append(sequence, strategy.TensorAxis)
	}
	return mesh.Closed(mesh.Split(h.dataAxes(strategy.DataAxis, strategy.ExpertAxis), h.dataAxes(sequence...), nil)), true
}

// columns is how sequences lie within a layer: where the tensor axis splits them between layers, it splits heads and widths within.
func (h *hybrid) columns() shard.Columns {
	if !h.s.Sequence {
		return shard.Columns{}
	}
	axes := h.dataAxes
	return shard.Columns{Axis: strategy.TensorAxis, Split: mesh.Closed(mesh.Split(axes(strategy.DataAxis, strategy.ExpertAxis), axes(strategy.ContextAxis), axes(strategy.TensorAxis)))}
}

// batchShardings is how the parameters of a program lie that are no weights: n of the batch, and then what every device has whole.
func (h *hybrid) batchShardings(f *Program, n int) (list []mesh.Sharding) {
	for i, v := range f.Params()[len(h.c.Params):] {
		if i < n {
			list = append(list, h.batchSharding(v.Type()))
		} else {
			list = append(list, mesh.Closed(mesh.Whole(len(v.Shape()))))
		}
	}
	return list
}

func (h *hybrid) batchSharding(t Type) mesh.Sharding {
	s := mesh.Whole(len(t.Shape))
	if len(t.Shape) == 0 {
		return mesh.Closed(s) // a scalar is the same for all rows
	}
	s.Dims[0] = h.dataAxes(strategy.DataAxis, strategy.ExpertAxis)
	return mesh.Closed(s)
}

// recompute turns the strategy's word into policies for the layers of each stage.
func (h *hybrid) recompute(c *step.Config) error {
	policy, err := recomputeOf(h.s)
	if err != nil {
		return err
	}
	first := 0 // the layer with which a stage begins
	starts := []int{0}
	for _, cut := range c.Cuts {
		first, _ = nn.LayerOf(cut)
		starts = append(starts, first)
	}
	c.Between = func(mark string) bool { _, ok := nn.LayerOf(mark); return ok || mark == nn.HeadMark }
	c.Recompute = func(mark string) stage.Recompute {
		layer, ok := nn.LayerOf(mark)
		if !ok {
			return policyOutside(policy(0))
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

// recomputeOf is what each layer computes again, by its number within its stage.
func recomputeOf(s Strategy) (func(layer int) stage.Recompute, error) {
	word, limit, err := s.Recomputed()
	policy := map[string]stage.Recompute{"selective": stage.RecomputeSelective, "full": stage.RecomputeFull}[word]
	return func(layer int) stage.Recompute {
		if limit >= 0 && layer >= limit {
			return stage.RecomputeNone
		}
		return policy
	}, err
}

// policyOutside is the policy before the first layer and after the last: the head's logits are not worth computing twice.
func policyOutside(p stage.Recompute) stage.Recompute {
	if p == stage.RecomputeFull {
		return stage.RecomputeSelective
	}
	return p
}

// update traces the optimizer.
func (h *hybrid) update() step.Update {
	scalar := h.c.scalarType()
	return step.Update{
		Slots: func(w int) []Type {
			return slices.Repeat([]Type{h.c.Params[w].Type}, h.masters()+h.c.Optimizer.Slots())
		},
		Scalars: []Type{scalar, scalar},
		Trace:   h.traceUpdate,
	}
}

func (h *hybrid) traceUpdate(in step.UpdateIn) (out step.UpdateOut) {
	dtype := in.Scalars[0].DType()
	s := optim.Step{LR: in.Scalars[0], Count: in.Scalars[1], Scale: op.Cast(in.Scale, dtype)}
	if h.c.ClipNorm > 0 {
		s.Scale = op.Mul(s.Scale, op.Cast(optim.ClipScale(in.Norm, h.c.ClipNorm), dtype))
	}
	for k := range in.Index {
		p, slots := in.Weights[k], in.Slots[k]
		if h.masters() > 0 {
			p, slots = slots[0], slots[1:]
		}
		next, kept := h.c.updated(in.Index[k], p, in.Grads[k], slots, s)
		if h.s.AMP == "f16" { // gradients that overflowed are no step
			ok := op.IsFinite(in.Norm)
			next = op.Where(ok, next, p)
			for i := range kept {
				kept[i] = op.Where(ok, kept[i], slots[i])
			}
		}
		if h.masters() > 0 {
			kept, next = append([]*Tensor{next}, kept...), op.Cast(next, in.Weights[k].DType())
		}
		out.Weights, out.Slots = append(out.Weights, next), append(out.Slots, kept)
	}
	return out
}
