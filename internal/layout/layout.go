package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Config is the input of New.
type Config struct {
	Params []*nn.Param
	// Strategy has its defaults filled in.
	Strategy strategy.Strategy
	// Annotations request shardings of parameters by name; Layers, if set, of layers.
	Annotations []mesh.Annotation
	Layers      *Layers
	// Loaded has the layouts in which the loader makes the tensors of a batch; one without a mesh is
	// unconstrained.
	Loaded []op.Layout
	// ZeroAxis is the axis that ZeRO shards over; empty means all axes that split the batch.
	ZeroAxis string
	// Where is the source line that asks for the strategy, for messages.
	Where ir.Pos
}

// Layout has the shardings of a training run on the devices of a strategy. Every annotation, whatever its
// source, is read here.
type Layout struct {
	Config
	// Meshes has the devices of each pipeline rank, Schedule the order of their work.
	Meshes   []*mesh.Mesh
	Schedule *pipeline.Schedule
	// given is the strategy without defaults; unscheduled is the reason why it has no schedule of its own.
	given       strategy.Strategy
	unscheduled error
	// applied is the result of Layers for the last traced program.
	applied *applied
	// held is the layout of parameters that are on a mesh already, on that of each parameter on each rank, by
	// held and by what the first program requests; homes lists the ranks that hold it in any case.
	held  map[string]placed
	on    map[string]map[int]placed
	homes map[string][]int
	// ranks holds the devices of the pipeline if only meshes define them; nil if the strategy does. first is who
	// defines the first of them, for messages.
	ranks []*rank
	first string
	// cut lists the stages that compute with each weight, if a step was split automatically.
	cut [][]int
	// batchAxes lists the axes that split the rows of a batch.
	batchAxes []string
}

// New returns the layout of a run.
func New(c Config) (*Layout, error) {
	s, err := c.Strategy.WithDefaults()
	if err != nil {
		return nil, err
	}
	l := &Layout{Config: c, given: c.Strategy}
	l.Strategy = s
	if l.held, err = heldOf(c.Params); err != nil {
		return nil, err
	}
	if l.Meshes, err = s.Meshes(); err != nil {
		return nil, err
	}
	if l.Schedule, err = s.Pipeline(); err != nil && s.Devices() > 1 {
		return nil, err
	}
	l.unscheduled = err // unless meshes define ranks for it
	return l, nil
}

// Apply returns a traced program with the marks of the plan of layers; without a plan it returns the program.
func (l *Layout) Apply(f *ir.Func) (*ir.Func, error) {
	if l.Layers == nil {
		return f, nil
	}
	a, err := l.Layers.apply(f)
	if err != nil {
		return nil, err
	}
	l.applied = a
	return a.program, nil
}

// Cuts returns the marks at which stages begin.
func (l *Layout) Cuts(f *ir.Func) ([]string, error) {
	stages := l.Schedule.Stages
	if stages == 1 {
		return nil, nil
	}
	if l.applied != nil && l.applied.cuts != nil {
		return l.applied.cuts, nil
	}
	layers, counts := layerMarks(f), l.Strategy.Layers
	if counts == nil {
		if len(layers) < stages {
			return nil, tooFewLayers(len(layers), stages)
		}
		counts = Evenly(len(layers), stages)
	}
	if err := checkCounts(counts, stages, len(layers)); err != nil {
		return nil, err
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

// layerMarks returns the marks with which the layers of a program begin.
func layerMarks(f *ir.Func) (layers []string) {
	for _, n := range f.Nodes() {
		if label, ok := op.Marked(n); ok {
			if _, ok := nn.LayerOf(label); ok {
				layers = append(layers, label)
			}
		}
	}
	return layers
}

// checkCounts returns an error unless there is a count for each stage, and their sum is the number of layers.
func checkCounts(counts []int, stages, layers int) error {
	total := 0
	for _, n := range counts {
		total += n
	}
	switch {
	case layers == 0:
		return fmt.Errorf("strategy: layers of stages are %v: the model marks none: "+
			"want op.Mark(x, nn.LayerMark(i)) where each begins, or no layers, so that it is cut where it is "+
			"narrowest", counts)
	case len(counts) != stages || total != layers:
		return fmt.Errorf("strategy: layers of stages are %v: want %d numbers with the sum %d", counts, stages,
			layers)
	}
	return nil
}

func tooFewLayers(layers, stages int) error {
	return fmt.Errorf("strategy: %d layers cannot make %d stages: want pp·vpp of %d or less", layers, stages,
		layers)
}

// Evenly divides n items into k groups; the first and the last, which also have the embedding and the head,
// are not the larger ones.
func Evenly(n, k int) []int {
	list := slices.Repeat([]int{n / k}, k)
	for i := range n % k {
		list[(i+1)%k]++
	}
	return list
}

// dataAxes returns the axes along which devices process different data, those that a mesh has.
func (l *Layout) dataAxes(names ...string) mesh.Axes {
	var axes mesh.Axes
	for _, name := range names {
		if a, ok := l.Meshes[0].Axis(name); ok && a.Size > 1 {
			axes = append(axes, mesh.On(name)...)
		}
	}
	return axes
}

// Mark returns the layout of a marked value: for the hidden states between layers, batches by the data axes,
// sequences by the context axis and, with sequence parallelism, the tensor axis.
func (l *Layout) Mark(label string) (mesh.Sharding, bool) {
	if !nn.IsStream(label) {
		return l.applied.marksOf(l.Meshes[0], label)
	}
	if l.ranks != nil { // the meshes of the program define it
		return mesh.Sharding{}, false
	}
	sequence := []string{strategy.ContextAxis}
	if l.Strategy.Sequence {
		sequence = append(sequence, strategy.TensorAxis)
	}
	return mesh.Closed(mesh.Split(l.dataAxes(strategy.DataAxis, strategy.ExpertAxis), l.dataAxes(sequence...),
		nil)), true
}

// SequenceParallel returns the layout of sequences within a layer: if the tensor axis splits them between
// layers, it splits heads and widths within.
func (l *Layout) SequenceParallel() shard.SequenceParallel {
	if !l.Strategy.Sequence {
		return shard.SequenceParallel{}
	}
	axes := l.dataAxes
	return shard.SequenceParallel{Axis: strategy.TensorAxis,
		Split: mesh.Closed(mesh.Split(axes(strategy.DataAxis, strategy.ExpertAxis), axes(strategy.ContextAxis),
			axes(strategy.TensorAxis)))}
}

// Inputs returns the layouts of the parameters of a program that are not weights: n of the batch, and then
// replicated ones. meshes holds those that are not on the mesh of their stage.
func (l *Layout) Inputs(f *ir.Func, n int) (list []mesh.Sharding, meshes []*mesh.Mesh) {
	meshes = make([]*mesh.Mesh, len(f.Params())-len(l.Params))
	for i, v := range f.Params()[len(l.Params):] {
		switch {
		case i < len(l.Loaded) && i < n && l.Loaded[i].Mesh != nil:
			list, meshes[i] = append(list, mesh.Closed(l.Loaded[i].Spec)), l.Loaded[i].Mesh
		case i < n && l.ranks != nil:
			list = append(list, mesh.Sharding{})
		case i < n:
			list = append(list, l.Layers.input(l.Meshes[0], i, l.Batch(v.Type())))
		default:
			list = append(list, mesh.Closed(mesh.Whole(len(v.Shape()))))
		}
	}
	return list, meshes
}

// Batch returns the layout of a tensor of a batch: its rows by the data axes.
func (l *Layout) Batch(t ir.Type) mesh.Sharding {
	s := mesh.Whole(len(t.Shape))
	if len(t.Shape) == 0 {
		return mesh.Closed(s) // a scalar is the same for all rows
	}
	s.Dims[0] = l.dataAxes(strategy.DataAxis, strategy.ExpertAxis)
	return mesh.Closed(s)
}

// Computed returns the type in which a parameter of a type enters computation.
func (l *Layout) Computed(t ir.Type) ir.Type {
	if !t.DType.IsFloat() || l.Strategy.AMP == "off" {
		return t
	}
	dtype := array.BF16
	if l.Strategy.AMP == "f16" {
		dtype = array.F16
	}
	return ir.Type{DType: dtype, Shape: t.Shape}
}

// Entering returns the type in which a parameter enters computation: a buffer in its own, because a step adds
// little to it.
func (l *Layout) Entering(p *nn.Param) ir.Type {
	if p.Buffer {
		return p.Type
	}
	return l.Computed(p.Type)
}

// Masters returns the number of slots that hold a parameter's own value: 1 with mixed precision, where the
// optimizer keeps the f32 master weights, else 0.
func (l *Layout) Masters() int {
	if l.Strategy.AMP == "off" {
		return 0
	}
	return 1
}
