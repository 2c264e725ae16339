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

// Layouts has the Specs of a weight on the devices of a rank. They are all that ZeRO is: stage 1 splits Slot
// over the data axis, stage 2 also Sum, stage 3 also Rest.
type Layouts struct {
	// Mesh consists of the rank's devices; nil means the rank's own mesh.
	Mesh *mesh.Mesh
	// Use is the weight's sharding in computation, Rest between steps, Slot that of its optimizer state, and
	// Sum that of its gradients, summed over micro-batches; axes along which sums stay unreduced are found
	// automatically.
	Use, Rest, Sum, Slot mesh.Spec
}

// Weight is a trained tensor and its shardings.
type Weight struct {
	Name string
	Type ir.Type
	// Layouts applies to every rank except those in On.
	Layouts
	On map[int]Layouts
	// Held lists the ranks that hold the weight whether or not they compute with it, its home first; other
	// ranks that use it hold copies.
	Held []int
	// Buffer marks a buffer: its gradient is the change to add, and is not part of the gradient norm.
	Buffer bool
	// Fixed marks a weight that no step changes: it has no gradient.
	Fixed bool
}

// trainable reports whether the weight's gradient is part of the gradient norm.
func (w *Weight) trainable() bool { return !w.Buffer && !w.Fixed }

// LayoutsOn returns the layouts of the weight on a rank; meshes holds those of the ranks.
func (w *Weight) LayoutsOn(meshes []*mesh.Mesh, rank int) Layouts {
	l, ok := w.On[rank]
	if !ok {
		l = w.Layouts
	}
	if l.Mesh == nil {
		l.Mesh = meshes[rank]
	}
	return l
}

// slot returns the layout of a slot of a type: one that is smaller than the weight is replicated.
func (w *Weight) slot(l Layouts, t ir.Type) mesh.Spec {
	if t.Shape.Equal(w.Type.Shape) {
		return l.Slot
	}
	return mesh.Whole(len(t.Shape))
}

// layouts returns the layouts of a weight on a rank.
func (c *Config) layouts(weight, rank int) Layouts {
	return c.Weights[weight].LayoutsOn(c.Meshes, rank)
}

// Config is the input of New.
type Config struct {
	// Forwards take the weights and one micro-batch and return two numbers; the loss is the quotient of their
	// sums over all micro-batches. They differ only in the size of the micro-batch, and Variant selects one
	// for each micro-batch.
	Forwards []*ir.Func
	Variant  []int
	Weights  []Weight
	// Batch has the shardings of the other parameters; the zero value leaves them to inference. BatchMeshes,
	// if set, has their meshes on the ranks that own those devices.
	Batch       []mesh.Sharding
	BatchMeshes []*mesh.Mesh
	// Marks returns the requested sharding of marked values; nil requests nothing.
	Marks func(label string) (mesh.Sharding, bool)
	// SequenceParallel returns the sharding of sequences within a layer where it must be explicit.
	SequenceParallel shard.SequenceParallel
	// Meshes has the devices of each pipeline rank; ranks share no device.
	Meshes []*mesh.Mesh
	// Schedule is the pipeline schedule, Cuts the mark with which every stage but the first begins.
	Schedule *pipeline.Schedule
	Cuts     []string
	// Between says which marks are between layers; Recompute is called with the last of them before a node.
	Between   func(mark string) bool
	Recompute func(layer string) stage.Recompute
	// SumType returns the type in which a weight's gradients are summed; nil means its own.
	SumType func(weight int) ir.Type
	// Update computes the next weights.
	Update Update
	// Offload says what is kept outside of device memory.
	Offload Offload
	Prices  spmd.Prices
	// Overlap says whether devices compute while they communicate.
	Overlap Overlap
	// Bucket is the maximum number of bytes up to which collectives of one kind and group are merged; 0
	// merges as long as the saved latency pays. Host is the number of neighbouring devices per host, so that
	// collectives go within hosts first; 0 means one host.
	Bucket, Host int
	// Program runs passes on a stage's program before it is partitioned; nil means all passes. Local, if set,
	// rewrites a device's program before its memory is planned. AsIs turns the fusion of loops off.
	Program, Local func(*ir.Func) (*ir.Func, error)
	AsIs           bool
}

// RunConfig says what a plan runs with. The zero value uses one thread per device.
type RunConfig struct {
	// Offload creates a device's store for what is kept outside of its memory; it is required if anything is.
	Offload func(device int, types []ir.Type) (offload.Store, error)
	// Threads is the number of threads that the devices of a process share; each has at least one.
	Threads int
	// Backends replace the devices of a pipeline rank; nil, or none for a rank, means the host.
	Backends []backend.Backend
	// DetectNaN makes a step fail at the first op that produces a NaN.
	DetectNaN bool
	// Observe, if set, receives the time of each node from all devices.
	Observe func(n *ir.Node, took time.Duration)
}

// Overlap says how communication and computation overlap.
type Overlap uint8

// NoOverlap finishes each collective before the next op, Overlapped waits when its result is used, and
// AutoOverlap does that for collectives where the cost model says that it pays.
const (
	NoOverlap Overlap = iota
	FullOverlap
	AutoOverlap
)

// Update is the end of a step, traced on whole tensors.
type Update struct {
	// Slots returns the types of what the optimizer stores for a weight.
	Slots func(weight int) []ir.Type
	// Scalars holds the types of a step's scalar inputs.
	Scalars []ir.Type
	// Trace computes the next weights and slots of those whose home is one pipeline rank.
	Trace func(in UpdateIn) UpdateOut
}

// UpdateIn is the input of an update of some weights.
type UpdateIn struct {
	// Index has the indices of the weights; the other lists are parallel to it.
	Index          []int
	Weights, Grads []*op.Tensor
	Slots          [][]*op.Tensor
	Scalars        []*op.Tensor
	// Scale turns Grads into those of the loss. Norm is the global gradient norm after it.
	Scale, Norm *op.Tensor
}

// UpdateOut holds the next weights and slots.
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

// String prints the programs that are planned, for debugging.
func (c Config) String() string {
	var b strings.Builder
	for _, f := range c.Forwards {
		b.WriteString(f.String())
	}
	return b.String()
}

// checkParams checks the parameters of the programs.
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

// Uses returns the layouts in computation of the weights with some numbers.
func Uses(weights []Weight, which []int) []mesh.Spec {
	list := make([]mesh.Spec, len(which))
	for i, w := range which {
		list[i] = weights[w].Use
	}
	return list
}
