package galley

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// ParallelPlan says by the names of layers how a model is spread over devices. What it does not name lies by the built-in plan.
type ParallelPlan struct {
	// Strategy is the degrees, and all that is said of a model as a whole.
	Strategy Strategy
	// Layers is asked in order; On makes its rows. Where several rows split one parameter, the first counts.
	Layers []LayerPlan
	// Annotations ask for parameters by name, before Layers.
	Annotations []Annotation
	// Split is where stages of the pipeline begin, in any order; nil spreads the layers that a model marks evenly.
	Split []SplitPoint
}

// LayerPlan is what is done with the layers whose names match a pattern.
type LayerPlan struct {
	// Pattern is as in path.Match, of a layer's name: that of its parameters without the last part. Of layers within layers
	// that match, the outer ones count.
	Pattern string
	Use     []Parallelism
}

// On is what is done with the layers whose names match a pattern.
func On(pattern string, use ...Parallelism) LayerPlan { return LayerPlan{pattern, use} }

// Parallelism is one thing that can be done with a layer: ColWise, RowWise, PrepareInput, PrepareOutput, SequenceParallelBegin,
// SequenceParallelEnd, SequenceParallelEnable or SequenceParallelDisable.
type Parallelism interface {
	add(b *planBuilder, layer string) error
}

// ColWise splits the dim of a layer's weight that its result has, and the bias with it: the columns of a linear layer, the
// width of an embedding. The result stays split, unless it is gathered.
type ColWise struct {
	// Axis is tp where it is empty.
	Axis   string
	Gather bool
}

// RowWise splits the dim of a layer's weight that its result lacks: what a linear layer sums over, the vocabulary of an embedding.
// The results of all devices are summed; the bias is whole.
type RowWise struct{ Axis string }

// PrepareInput asks how a layer's input lies, by the text of a Sharding: @[dp,_,_]. Axes of one device are left out.
type PrepareInput struct{ Sharding string }

// PrepareOutput asks how a layer's result lies.
type PrepareOutput struct{ Sharding string }

// SequenceParallelBegin splits a layer's result along the sequence, dim 1, over the tensor axis: so do the layers that follow.
type SequenceParallelBegin struct{}

// SequenceParallelEnd gathers a layer's input along the sequence.
type SequenceParallelEnd struct{}

// SequenceParallelEnable splits the input of a layer along the sequence and gathers its result.
type SequenceParallelEnable struct{}

// SequenceParallelDisable gathers the input of a layer along the sequence, among layers that are split so, and splits its result.
type SequenceParallelDisable struct{}

// The sequence is split over devices that already have different sequences or parts of them.
const (
	sequenceSplit = "@[dp.ep,cp.tp,_]"
	sequenceWhole = "@[dp.ep,cp,_]"
)

func (c ColWise) add(b *planBuilder, layer string) error {
	if err := b.split(layer, columns, c.Axis); err != nil || !c.Gather {
		return err
	}
	return b.hook(layer, atOutput, "")
}

func (r RowWise) add(b *planBuilder, layer string) error { return b.split(layer, rowsOf, r.Axis) }

func (p PrepareInput) add(b *planBuilder, layer string) error {
	return b.hook(layer, atInput, p.Sharding)
}

func (p PrepareOutput) add(b *planBuilder, layer string) error {
	return b.hook(layer, atOutput, p.Sharding)
}

func (SequenceParallelBegin) add(b *planBuilder, layer string) error {
	return b.hook(layer, atOutput, sequenceSplit)
}

func (SequenceParallelEnd) add(b *planBuilder, layer string) error {
	return b.hook(layer, atInput, sequenceWhole)
}

func (SequenceParallelEnable) add(b *planBuilder, layer string) error {
	if err := b.hook(layer, atInput, sequenceSplit); err != nil {
		return err
	}
	return b.hook(layer, atOutput, sequenceWhole)
}

func (SequenceParallelDisable) add(b *planBuilder, layer string) error {
	if err := b.hook(layer, atInput, sequenceWhole); err != nil {
		return err
	}
	return b.hook(layer, atOutput, sequenceSplit)
}

// SplitPoint is where a stage of the pipeline ends, and the next begins.
type SplitPoint struct {
	// Layer is a layer's name; no pattern.
	Layer string
	At    SplitAt
}

// SplitAt is a side of a layer.
type SplitAt uint8

// A stage ends after the layer, or before it.
const (
	End SplitAt = iota
	Beginning
)

// Parallel is a model with a plan: ToStatic, Engine and TrainerConfig.Parallel take it.
type Parallel struct {
	Model
	// Optimizer is as it was given to Parallelize.
	Optimizer optim.Optimizer
	Strategy  *Strategy
	// Annotations is what was asked for parameters by name.
	Annotations []Annotation
	splits      []weightSplit
	hooks       []hook
	points      []SplitPoint
}

// Inputs is that of the model.
func (p *Parallel) Inputs() int {
	if i, ok := p.Model.(Inputs); ok {
		return i.Inputs()
	}
	return 0
}

// Parallelize checks a plan against the names of a model's layers. Nothing is moved: ToStatic, Engine and the Trainer build their
// programs by it.
func Parallelize(model Model, optimizer optim.Optimizer, plan ParallelPlan) (*Parallel, error) {
	if model == nil || len(model.Params()) == 0 {
		return nil, fmt.Errorf("parallelize: model has no parameters: make its layers with one nn.Init and return its Params()")
	}
	if err := plan.Strategy.Check(); err != nil {
		return nil, err
	}
	b := &planBuilder{out: &Parallel{Model: model, Optimizer: optimizer, Strategy: &plan.Strategy, Annotations: plan.Annotations}}
	b.index(model.Params())
	if err := checkAnnotations(plan.Annotations, model.Params()); err != nil {
		return nil, fmt.Errorf("parallelize: %w", err)
	}
	for _, row := range plan.Layers {
		layers, err := b.match(row.Pattern)
		if err != nil {
			return nil, fmt.Errorf("parallelize: %w", err)
		}
		for _, l := range layers {
			for _, use := range row.Use {
				if err := use.add(b, l); err != nil {
					return nil, fmt.Errorf("parallelize: pattern %q: layer %q: %w", row.Pattern, l, err)
				}
			}
		}
	}
	return b.out, b.points(plan)
}

// planBuilder collects what a plan asks of layers.
type planBuilder struct {
	out *Parallel
	// params and layers is their names, in the model's order.
	params, layers []string
	shapes         map[string][]int
}

// index finds the layers: whatever a parameter's name has before its dots.
func (b *planBuilder) index(params []*nn.Param) {
	b.shapes = map[string][]int{}
	seen := map[string]bool{}
	for _, p := range params {
		b.params, b.shapes[p.Name] = append(b.params, p.Name), p.Type.Shape
		for i, c := range p.Name {
			if l := p.Name[:i]; c == '.' && !seen[l] {
				seen[l] = true
				b.layers = append(b.layers, l)
			}
		}
	}
}

// match is the outermost layers whose names match.
func (b *planBuilder) match(pattern string) ([]string, error) {
	var list []string
	for _, l := range b.layers {
		ok, err := path.Match(pattern, l)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		inside := slices.ContainsFunc(list, func(outer string) bool { return strings.HasPrefix(l, outer+".") })
		if ok && !inside {
			list = append(list, l)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("pattern %q matches no layer: want one like %s", pattern, nearest(pattern, b.layers))
	}
	return list, nil
}

// nearest is the layers that share the last part of a pattern, or the first ones.
func nearest(pattern string, names []string) string {
	word := pattern[strings.LastIndexAny(pattern, ".*?]")+1:]
	var like []string
	for _, n := range names {
		if word != "" && strings.Contains(n, word) {
			like = append(like, n)
		}
	}
	if like == nil {
		like = names
	}
	return someOf(like)
}

func someOf(names []string) string {
	if len(names) > 4 {
		return strings.Join(names[:4], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// side is a dim of a weight by what a layer does with it.
type side uint8

const (
	columns side = iota // the result has it
	rowsOf              // the result lacks it
)

// weightSplit asks for a side of a layer's weight to be split.
type weightSplit struct {
	weight, bias string // bias is empty where it stays whole
	side         side
	axis         string
}

func (b *planBuilder) split(layer string, s side, axis string) error {
	if axis == "" {
		axis = strategy.TensorAxis
	}
	if !slices.Contains(strategyAxes, axis) {
		return fmt.Errorf("axis %q: want tp, or dp, cp, ep", axis)
	}
	w := weightSplit{weight: layer + ".weight", side: s, axis: axis}
	shape, ok := b.shapes[w.weight]
	if !ok {
		return fmt.Errorf("it has no weight of its own: name its linear layers or embeddings: %s", nearest("*", b.within(layer)))
	}
	if len(shape) != 2 {
		return fmt.Errorf("its weight has shape %v: want a matrix: annotate it by ParallelPlan.Annotations", shape)
	}
	if _, ok := b.shapes[layer+".bias"]; ok && s == columns {
		w.bias = layer + ".bias"
	}
	b.out.splits = append(b.out.splits, w)
	return nil
}

// within is the names of layers or else parameters within a layer.
func (b *planBuilder) within(layer string) []string {
	var list []string
	for _, n := range append(slices.Clone(b.layers), b.params...) {
		if strings.HasPrefix(n, layer+".") {
			list = append(list, n)
		}
	}
	return list
}

// hook asks how what goes into a layer or comes out of it lies.
type hook struct {
	layer string
	at    hookSide
	// sharding has no dims where only the batch and the context stay split.
	sharding mesh.Sharding
}

type hookSide uint8

const (
	atInput hookSide = iota
	atOutput
)

func (b *planBuilder) hook(layer string, at hookSide, text string) error {
	h := hook{layer: layer, at: at}
	if text != "" {
		var err error
		if h.sharding, err = mesh.ParseSharding(text); err != nil {
			return err
		}
	}
	b.out.hooks = append(b.out.hooks, h)
	return nil
}

// points checks where stages begin.
func (b *planBuilder) points(plan ParallelPlan) error {
	if len(plan.Split) == 0 {
		return nil
	}
	s, err := plan.Strategy.WithDefaults()
	if err != nil {
		return err
	}
	p, err := s.Pipeline()
	if err != nil {
		return err
	}
	if len(plan.Split) != p.Stages-1 {
		return fmt.Errorf("parallelize: %d split points make %d stages: the schedule has %d: want %d split points", len(plan.Split), len(plan.Split)+1, p.Stages, p.Stages-1)
	}
	if plan.Strategy.Layers != nil {
		return fmt.Errorf("parallelize: both Split and Strategy.Layers say where stages begin: leave one of them out")
	}
	for _, at := range plan.Split {
		if !slices.Contains(b.layers, at.Layer) {
			return fmt.Errorf("parallelize: split point at %q: no such layer: want one like %s", at.Layer, nearest(at.Layer, b.layers))
		}
	}
	b.out.points = plan.Split
	return nil
}
