package step

import (
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// Plan is a training step or forward pass on many devices: everything that is decided before it runs and
// everything needed to run it. It is data: String prints it, Parse reads it back, and a parsed plan runs to
// the same bits.
type Plan struct {
	Kind Kind
	// Whole reports whether devices run whole programs instead of the parts of stages, as one device and a
	// backend do. NewWhole makes such plans.
	Whole bool
	// Backend reports whether a backend's compiler gets the programs, so that no loops are fused here.
	Backend bool
	// AsIs reports whether the host runs programs without fusing loops, too.
	AsIs bool
	// Meshes has the devices of each pipeline rank.
	Meshes []*mesh.Mesh
	// Schedule is the order of the ranks' work, with sends and receives.
	Schedule *pipeline.Schedule
	// Inputs has the tensors of a micro-batch for each kind of micro-batch; Variant is the kind of each.
	Inputs  [][]ir.Type
	Variant []int
	// Scalars has the types of the numbers that a step takes.
	Scalars []ir.Type
	Weights []State
	// Results has what a forward pass returns for each kind of micro-batch, with its sharding on the last
	// stage.
	Results [][]Result
	Stages  []Stage
	// Parts has the global programs of the stages in the order of their first call, then the update.
	Parts []*Part

	programs []*program
	tapes    []*tape // by device; nil where a number is no device
}

// Kind says what a plan is for.
type Kind uint8

// A training step has forward, backward and an update; a forward pass only forward.
const (
	Train Kind = iota
	ForwardPass
)

// String returns the kind as plans write it.
func (k Kind) String() string { return [...]string{"train", "forward"}[k] }

// State is a weight of a plan and its optimizer state.
type State struct {
	Weight
	// Slots has the types of the optimizer's slots, Home the rank that updates the weight, Copies the other
	// ranks that use it.
	Slots  []ir.Type
	Home   int
	Copies []int
}

// Result is what a forward pass returns.
type Result struct {
	Type ir.Type
	Spec mesh.Spec
}

// Stage is a group of consecutive layers on a pipeline rank.
type Stage struct {
	Rank int
	// Begin is the mark with which it begins; empty for the first stage.
	Begin string
}

// Part is a global program that a stage calls, with the sharding of each value.
type Part struct {
	// Stage is -1 for the update; of whole programs it may be another When.
	Stage, Variant int
	Kind           pipeline.Kind
	// First marks the first backward pass of a step, which stores its gradients instead of adding them.
	First bool
	Func  *ir.Func
	// Meshes and Specs are the layouts of values, by ID, ResultSpecs those of what is returned.
	Meshes      []*mesh.Mesh
	Specs       []mesh.Spec
	ResultSpecs []mesh.Spec
	// Communications lists what devices exchange in it.
	Communications []spmd.Communication
}

// program is a local program of a device with planned memory.
type program struct {
	exe *cpu.Executable
	memoryReuse
	offloaded cpu.Offloaded
}

// memoryReuse is the parameters of a program whose memory it is given: results overwrite the donated ones,
// and its own values the spent ones once they are read.
type memoryReuse struct{ donated, spent []int }

// Devices returns the number of devices that the plan needs.
func (p *Plan) Devices() int { return len(p.tapes) }

// Has reports whether the plan uses a device: meshes may skip numbers.
func (p *Plan) Has(device int) bool { return p.tapes[device] != nil }

// Memory returns the memory of a device, exactly what Start allocates.
func (p *Plan) Memory(device int) Memory {
	if p.Whole {
		return p.tapes[device].wholeMemory()
	}
	return p.tapes[device].memory()
}

// Programs returns the distinct local programs in the order of first use.
func (p *Plan) Programs() []*ir.Func {
	var list []*ir.Func
	for _, x := range p.programs {
		list = append(list, x.exe.Func())
	}
	return list
}

// PartOf returns the part that an action of the schedule runs, or nil.
func (p *Plan) PartOf(a pipeline.Action) *Part {
	if !a.Kind.Computes() {
		return nil
	}
	rank := p.Stages[a.Stage].Rank
	first := a.Kind != pipeline.Forward && firstMicros(p.Schedule, rank)[a.Stage] == a.Micro
	for _, x := range p.Parts {
		if x.Stage == a.Stage && x.Kind == a.Kind && x.Variant == p.Variant[a.Micro] && x.First == first {
			return x
		}
	}
	return nil
}
