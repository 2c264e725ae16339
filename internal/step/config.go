package step

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/offload"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Lay is how a weight is laid out on the devices of a rank. ZeRO is nothing but this: stage 1 splits Slot
// over the data axis, stage 2 Sum, too, and stage 3 Rest.
type Lay struct {
	// Mesh is of the rank's devices; nil is the rank's own mesh.
	Mesh *mesh.Mesh
	// Use is its layout in computation, Rest between steps, Slot how the optimizer's memory of it is laid out
	// and Sum how its gradients are summed over micro-batches; axes that leave sums pending are found and
	// need not be said.
	Use, Rest, Sum, Slot mesh.Spec
}

// Weight is a trained tensor and its layout.
type Weight struct {
	Name string
	Type ir.Type
	// Lay is how it is laid out on every rank, but for those in On.
	Lay
	On map[int]Lay
	// Held is the ranks that hold it whether they compute with it or not, its home first; the others that do
	// hold copies.
	Held []int
	// Buffer is one whose gradient is what is added to it: it has no part in the gradients' norm.
	Buffer bool
	// Fixed is one that no step changes: it has no gradient.
	Fixed bool
}

// learns reports whether the weight has a part in the gradients' norm.
func (w *Weight) learns() bool { return !w.Buffer && !w.Fixed }

// LayOn returns how the weight is laid out on a rank, of which meshes has the mesh.
func (w *Weight) LayOn(meshes []*mesh.Mesh, rank int) Lay {
	l, ok := w.On[rank]
	if !ok {
		l = w.Lay
	}
	if l.Mesh == nil {
		l.Mesh = meshes[rank]
	}
	return l
}

// slot returns how a slot of a type is laid out: one that is not as large as the weight is small, and whole
// everywhere.
func (w *Weight) slot(l Lay, t ir.Type) mesh.Spec {
	if t.Shape.Equal(w.Type.Shape) {
		return l.Slot
	}
	return mesh.Whole(len(t.Shape))
}

// lay returns how a weight is laid out on a rank.
func (c *Config) lay(weight, rank int) Lay { return c.Weights[weight].LayOn(c.Meshes, rank) }

// Config is what a step is made of.
type Config struct {
	// Forwards take the weights and then one micro-batch. They return two numbers; the loss is the quotient of
	// their sums over all micro-batches. They differ in the size of the micro-batch only, and Variant is which
	// of them each micro-batch takes.
	Forwards []*ir.Func
	Variant  []int
	Weights  []Weight
	// Batch is the layout of the other parameters; the zero value leaves it to inference. BatchMeshes, if
	// set, is where one is on the ranks that have the devices of its mesh; others have it as they like.
	Batch       []mesh.Sharding
	BatchMeshes []*mesh.Mesh
	// Marks is the layout marked values should have; nil asks for nothing.
	Marks func(label string) (mesh.Sharding, bool)
	// SequenceParallel is the layout of sequences within a layer where that must be said.
	SequenceParallel shard.SequenceParallel
	// Meshes is the devices of each rank of the pipeline: no two ranks share one.
	Meshes []*mesh.Mesh
	// Schedule is the order of the pipeline, and Cuts the mark with which every stage but the first begins.
	Schedule *pipeline.Schedule
	Cuts     []string
	// Between says which marks stand between layers; Recompute is asked with the last of them before a node.
	Between   func(mark string) bool
	Recompute func(layer string) stage.Recompute
	// SumType is the type in which a weight's gradients are summed; nil is its own.
	SumType func(weight int) ir.Type
	// Update makes the next weights.
	Update Update
	// Away is what is outside of the devices' memory.
	Away   Away
	Prices spmd.Prices
	// Overlap is whether devices compute while they exchange.
	Overlap Overlap
	// Bucket is up to how many bytes collectives of one kind and group travel together; 0 is as many as the
	// latency that is saved pays for. Host is how many neighbouring devices share a host, so that collectives go
	// within hosts and then between them; 0 is all.
	Bucket, Host int
	// Program, if set, is the passes of a stage's program before it is split over devices; nil is all. Local,
	// if set, rewrites what a device runs before its memory is planned. AsIs is that nothing is joined to
	// loops then.
	Program, Local func(*ir.Func) (*ir.Func, error)
	AsIs           bool
}

// RunConfig is what a plan is run with. The zero value takes one thread a device.
type RunConfig struct {
	// Offload makes the store that keeps what is away of a device; it must be set where something is.
	Offload func(device int, types []ir.Type) (offload.Store, error)
	// Threads is how many threads the devices of a process share; each has at least one.
	Threads int
	// Backends compute in place of the devices of a rank of the pipeline; nil, or none for a rank, is the host.
	Backends []backend.Backend
	// DetectNaN ends a step at the first op that makes a NaN.
	DetectNaN bool
	// Observe, if set, is told by all devices how long each node took.
	Observe func(n *ir.Node, took time.Duration)
}

// Overlap is how collectives and computing go together.
type Overlap uint8

// Each collective ends before the next op begins, or when its result is used; or the latter where the cost
// model says that it pays.
const (
	InTurn Overlap = iota
	Overlapped
	WhereItPays
)

// Update is the end of a step, traced on the whole tensors.
type Update struct {
	// Slots is the types of what the optimizer keeps for a weight.
	Slots func(weight int) []ir.Type
	// Scalars is the types of the numbers that a step is given.
	Scalars []ir.Type
	// Trace makes the next weights and slots of those that are at home on one rank of the pipeline.
	Trace func(in UpdateIn) UpdateOut
}

// UpdateIn is what an update of some weights is made of.
type UpdateIn struct {
	// Index is the numbers of the weights; the other lists go along with it.
	Index          []int
	Weights, Grads []*op.Tensor
	Slots          [][]*op.Tensor
	Scalars        []*op.Tensor
	// Scale makes of Grads those of the loss. Norm is that of all weights' gradients after it.
	Scale, Norm *op.Tensor
}

// UpdateOut is the next weights and slots.
type UpdateOut struct {
	Weights []*op.Tensor
	Slots   [][]*op.Tensor
}

func (c Config) check() error {
	if err := c.checkParams(); err != nil {
		return err
	}
	for _, f := range c.Forwards {
		if len(f.Results()) != 2 {
			return fmt.Errorf(
				"step: forward program returns %d values: want a sum of losses and what they are divided by",
				len(f.Results()),
			)
		}
	}
	switch {
	case len(c.Schedule.Ranks) != len(c.Meshes):
		return fmt.Errorf("step: schedule has %d ranks: got meshes for %d", len(c.Schedule.Ranks), len(c.Meshes))
	case c.Schedule.Stages != len(c.Cuts)+1:
		return fmt.Errorf("step: schedule has %d stages: got %d cuts", c.Schedule.Stages, len(c.Cuts))
	case c.Schedule.Micros != len(c.Variant):
		return fmt.Errorf("step: schedule has %d micro-batches: got %d", c.Schedule.Micros, len(c.Variant))
	}
	_, err := pipeline.Check(c.Schedule)
	return err
}

// String returns the programs that are planned, for anyone who looks for a fault.
func (c Config) String() string {
	var b strings.Builder
	for _, f := range c.Forwards {
		b.WriteString(f.String())
	}
	return b.String()
}

// checkParams checks what the programs take.
func (c Config) checkParams() error {
	for _, f := range c.Forwards {
		if len(f.Params()) != len(c.Weights)+len(c.Batch) {
			return fmt.Errorf("step: forward program has %d parameters: want %d weights and %d of a batch",
				len(f.Params()), len(c.Weights), len(c.Batch))
		}
	}
	return nil
}

// cuts returns the nodes of a program at which stages begin.
func (c Config) cuts(f *ir.Func) ([]int, error) {
	var list []int
	for _, want := range c.Cuts {
		at := slices.IndexFunc(f.Nodes(), func(n *ir.Node) bool {
			label, ok := op.Marked(n)
			return ok && label == want
		})
		if at < 0 {
			return nil, fmt.Errorf("stages: no value of %s is marked %q", f.Name(), want)
		}
		list = append(list, at)
	}
	return list, nil
}

// Uses returns the layout of weights in computation: those of some numbers.
func Uses(weights []Weight, which []int) []mesh.Spec {
	list := make([]mesh.Spec, len(which))
	for i, w := range which {
		list[i] = weights[w].Use
	}
	return list
}
