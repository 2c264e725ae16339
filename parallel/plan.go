package parallel

import (
	"fmt"

	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// Plan says by the names of layers how a model is spread over devices. What it does not name is laid out by
// the built-in plan.
type Plan struct {
	// Strategy is the degrees, and all that is said of a model as a whole.
	Strategy strategy.Strategy
	// Layers is asked in order; On makes its rows. Where several rows split one parameter, the first counts.
	Layers []LayerPlan
	// Annotations ask for parameters by name, before Layers.
	Annotations []mesh.Annotation
	// Split is where stages of the pipeline begin, in any order; nil spreads the layers that a model marks
	// evenly.
	Split []SplitPoint
}

// LayerPlan is what is done with the layers whose names match a pattern.
type LayerPlan struct {
	// Pattern is as in path.Match, of a layer's name: that of its parameters without the last part. Of layers
	// within layers that match, the outer ones count.
	Pattern string
	Use     []Parallelism
}

// On returns what is done with the layers whose names match a pattern.
func On(pattern string, use ...Parallelism) LayerPlan { return LayerPlan{pattern, use} }

// Parallelism is one thing that can be done with a layer: ColWise, RowWise, PrepareInput, PrepareOutput,
// SequenceParallelBegin, SequenceParallelEnd, SequenceParallelEnable or SequenceParallelDisable.
type Parallelism interface {
	add(b *layout.Builder, layer string) error
}

// ColWise splits the dim of a layer's weight that its result has, and the bias with it: the columns of a
// linear layer, the width of an embedding. The result stays split, unless it is gathered.
type ColWise struct {
	// Axis is tp where it is empty.
	Axis   string
	Gather bool
}

// RowWise splits the dim of a layer's weight that its result lacks: what a linear layer sums over, the
// vocabulary of an embedding. The results of all devices are summed; the bias is whole.
type RowWise struct{ Axis string }

// PrepareInput asks the layout of a layer's input, by the text of a Sharding: @[dp,_,_]. Axes of one device
// are left out.
type PrepareInput struct{ Sharding string }

// PrepareOutput asks the layout of a layer's result.
type PrepareOutput struct{ Sharding string }

// SequenceParallelBegin splits a layer's result along the sequence, dim 1, over the tensor axis: so do the
// layers that follow.
type SequenceParallelBegin struct{}

// SequenceParallelEnd gathers a layer's input along the sequence.
type SequenceParallelEnd struct{}

// SequenceParallelEnable splits the input of a layer along the sequence and gathers its result.
type SequenceParallelEnable struct{}

// SequenceParallelDisable gathers the input of a layer along the sequence, among layers that are split so,
// and splits its result.
type SequenceParallelDisable struct{}

// The sequence is split over devices that already have different sequences or parts of them.
const (
	sequenceSplit = "@[dp.ep,cp.tp,_]"
	sequenceWhole = "@[dp.ep,cp,_]"
)

func (c ColWise) add(b *layout.Builder, layer string) error {
	if err := b.Split(layer, layout.SequenceParallel, c.Axis); err != nil || !c.Gather {
		return err
	}
	return b.Hook(layer, layout.Output, "")
}

func (r RowWise) add(b *layout.Builder, layer string) error {
	return b.Split(layer, layout.Rows, r.Axis)
}

func (p PrepareInput) add(b *layout.Builder, layer string) error {
	return b.Hook(layer, layout.Input, p.Sharding)
}

func (p PrepareOutput) add(b *layout.Builder, layer string) error {
	return b.Hook(layer, layout.Output, p.Sharding)
}

func (SequenceParallelBegin) add(b *layout.Builder, layer string) error {
	return b.Hook(layer, layout.Output, sequenceSplit)
}

func (SequenceParallelEnd) add(b *layout.Builder, layer string) error {
	return b.Hook(layer, layout.Input, sequenceWhole)
}

func (SequenceParallelEnable) add(b *layout.Builder, layer string) error {
	if err := b.Hook(layer, layout.Input, sequenceSplit); err != nil {
		return err
	}
	return b.Hook(layer, layout.Output, sequenceWhole)
}

func (SequenceParallelDisable) add(b *layout.Builder, layer string) error {
	if err := b.Hook(layer, layout.Input, sequenceWhole); err != nil {
		return err
	}
	return b.Hook(layer, layout.Output, sequenceSplit)
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

// Bind checks the plan against the names of a model's layers and says what is done with each.
func (plan Plan) Bind(params []*nn.Param) (*layout.Layers, error) {
	if err := plan.Strategy.Check(); err != nil {
		return nil, err
	}
	b := layout.NewBuilder(params)
	if err := layout.CheckAnnotations(plan.Annotations, params); err != nil {
		return nil, fmt.Errorf("parallelize: %w", err)
	}
	for _, row := range plan.Layers {
		if err := row.add(b); err != nil {
			return nil, fmt.Errorf("parallelize: %w", err)
		}
	}
	return b.Layers(), plan.points(b)
}

// add does with every layer that matches what the row says.
func (row LayerPlan) add(b *layout.Builder) error {
	layers, err := b.Match(row.Pattern)
	if err != nil {
		return err
	}
	for _, l := range layers {
		for _, use := range row.Use {
			if err := use.add(b, l); err != nil {
				return fmt.Errorf("pattern %q: layer %q: %w", row.Pattern, l, err)
			}
		}
	}
	return nil
}

// points checks where stages begin.
func (plan Plan) points(b *layout.Builder) error {
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
		return fmt.Errorf("parallelize: %d split points make %d stages: the schedule has %d: want %d split points",
			len(plan.Split), len(plan.Split)+1, p.Stages, p.Stages-1)
	}
	if plan.Strategy.Layers != nil {
		return fmt.Errorf("parallelize: both Split and Strategy.Layers say where stages begin: leave one of them out")
	}
	for _, at := range plan.Split {
		if err := b.Point(at.Layer, at.At == Beginning); err != nil {
			return fmt.Errorf("parallelize: %w", err)
		}
	}
	return nil
}
