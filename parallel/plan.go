package parallel

import (
	"fmt"

	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/strategy"
)

// Plan says by layer name how a model is distributed over devices. Layers that it does not name follow the
// built-in plan of the model family.
type Plan struct {
	// Strategy has the degrees of parallelism and all settings that apply to the model as a whole.
	Strategy strategy.Strategy
	// Layers is matched in order; On makes its rows. If several rows shard one parameter, the first one wins.
	Layers []LayerPlan
	// Annotations request shardings of parameters by name and take precedence over Layers.
	Annotations []mesh.Annotation
	// Split lists where pipeline stages begin, in any order; nil spreads the marked layers of the model
	// evenly.
	Split []SplitPoint
}

// LayerPlan is what to do with the layers whose names match a pattern.
type LayerPlan struct {
	// Pattern is matched as by path.Match against a layer's name, which is its parameters' names without the
	// last part. If nested layers match, the outer one wins.
	Pattern string
	Use     []Parallelism
}

// On returns a LayerPlan for the layers whose names match a pattern.
func On(pattern string, use ...Parallelism) LayerPlan { return LayerPlan{pattern, use} }

// Parallelism is one treatment of a layer: ColWise, RowWise, PrepareInput, PrepareOutput,
// SequenceParallelBegin, SequenceParallelEnd, SequenceParallelEnable or SequenceParallelDisable.
type Parallelism interface {
	add(b *layout.Builder, layer string) error
}

// ColWise splits a layer's weight along its output dim, and the bias with it: the columns of a linear layer,
// the width of an embedding. The result stays sharded unless it is gathered.
type ColWise struct {
	// Axis defaults to tp.
	Axis   string
	Gather bool
}

// RowWise splits a layer's weight along its input dim: the dim that a linear layer sums over, the vocabulary
// of an embedding. The devices' results are summed; the bias is replicated.
type RowWise struct{ Axis string }

// PrepareInput requests the sharding of a layer's input as text, such as @[dp,_,_]. Axes of size one are
// ignored.
type PrepareInput struct{ Sharding string }

// PrepareOutput requests the sharding of a layer's result.
type PrepareOutput struct{ Sharding string }

// SequenceParallelBegin splits a layer's result along the sequence (dim 1) over the tensor axis; the layers
// that follow keep that sharding.
type SequenceParallelBegin struct{}

// SequenceParallelEnd gathers a layer's input along the sequence.
type SequenceParallelEnd struct{}

// SequenceParallelEnable splits the input of a layer along the sequence and gathers its result.
type SequenceParallelEnable struct{}

// SequenceParallelDisable gathers the input of a layer within a sequence-parallel region and splits its
// result again.
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

// SplitPoint is a boundary between two pipeline stages.
type SplitPoint struct {
	// Layer is a layer's name, not a pattern.
	Layer string
	At    SplitAt
}

// SplitAt is a side of a layer.
type SplitAt uint8

// The stage ends after the layer, or before it.
const (
	End SplitAt = iota
	Beginning
)

// Bind matches the plan with the names of a model's layers and returns the treatment of each.
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

// add applies the row to every layer that matches.
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

// points checks the boundaries of stages.
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
		return fmt.Errorf("parallelize: both Split and Strategy.Layers say where stages begin: leave one of them " +
			"out")
	}
	for _, at := range plan.Split {
		if err := b.Point(at.Layer, at.At == Beginning); err != nil {
			return fmt.Errorf("parallelize: %w", err)
		}
	}
	return nil
}
