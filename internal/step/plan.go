package step

import (
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// Plan is a training step, or a forward pass, on many devices: all that is decided before it runs, and all
// that running it needs. It is data: String prints it, Parse reads it back, and what was read runs to the
// same bits.
type Plan struct {
	Kind Kind
	// Whole is whether devices run the step as whole programs, in place of the parts of stages: one device, and
	// those of a backend. Such a plan says what they run; NewWhole makes it.
	Whole bool
	// Backend is whether a backend's compiler gets the programs as they are: nothing is joined to loops.
	Backend bool
	// AsIs is whether the host runs programs as they are, too.
	AsIs bool
	// Meshes is the devices of each rank of the pipeline.
	Meshes []*mesh.Mesh
	// Schedule is what the ranks do in turn, with their sends and receives.
	Schedule *pipeline.Schedule
	// Inputs is what a micro-batch brings, for each kind of micro-batch; Variant is which kind each is.
	Inputs  [][]ir.Type
	Variant []int
	// Scalars is the types of the numbers that a step is given.
	Scalars []ir.Type
	Weights []State
	// Results is what a forward pass returns of each kind of micro-batch, and its layout on the last stage.
	Results [][]Result
	Stages  []Stage
	// Parts is the programs of the stages on whole tensors, in the order in which they are first called, and
	// the update behind them.
	Parts []*Part

	programs []*program
	tapes    []*tape // by device; nil where a number is no device
}

// Kind is what a plan is of.
type Kind uint8

// A training step goes forward and backward and ends with an update; a forward pass is its forward half.
const (
	Train Kind = iota
	ForwardPass
)

// String returns the kind as plans write it.
func (k Kind) String() string { return [...]string{"train", "forward"}[k] }

// State is a weight of a plan with what the optimizer keeps for it.
type State struct {
	Weight
	// Slots is the types of the optimizer's slots, Home the rank on which the weight is updated, and Copies
	// the other ranks that use it.
	Slots  []ir.Type
	Home   int
	Copies []int
}

// Result is what a forward pass returns.
type Result struct {
	Type ir.Type
	Spec mesh.Spec
}

// Stage is a run of layers on a rank of the pipeline.
type Stage struct {
	Rank int
	// Begin is the mark with which it begins; the first stage's is empty.
	Begin string
}

// Part is a program that a stage calls, on whole tensors, and the layout of each of its values.
type Part struct {
	// Stage is -1 for the update; of whole programs it may be another When.
	Stage, Variant int
	Kind           pipeline.Kind
	// First is whether it is the backward pass that comes first: it adds its gradients to nothing.
	First bool
	Func  *ir.Func
	// Meshes and Specs are the layouts of values, by ID, ResultSpecs those of what is returned.
	Meshes      []*mesh.Mesh
	Specs       []mesh.Spec
	ResultSpecs []mesh.Spec
	// Communications is what devices exchange in it.
	Communications []spmd.Communication
}

// program is what a device runs at once: a program of its own parts, with its memory planned.
type program struct {
	exe     *cpu.Executable
	donated []int // parameters that results overwrite
	away    cpu.Away
}

// Devices returns how many devices the plan needs.
func (p *Plan) Devices() int { return len(p.tapes) }

// Has reports whether a device has a part in the plan: meshes may leave numbers out.
func (p *Plan) Has(device int) bool { return p.tapes[device] != nil }

// Memory returns what a device needs: what Start then takes.
func (p *Plan) Memory(device int) Memory {
	if p.Whole {
		return p.tapes[device].wholeMemory()
	}
	return p.tapes[device].memory()
}

// Programs returns the programs that devices run, each once, in the order in which they come.
func (p *Plan) Programs() []*ir.Func {
	var list []*ir.Func
	for _, x := range p.programs {
		list = append(list, x.exe.Func())
	}
	return list
}

// PartOf returns the part that an action of the schedule calls; nil if it calls none.
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
