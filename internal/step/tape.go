package step

import (
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/mesh"
)

// tape is the program of one device for a step: instructions in order, and the memory that passes between
// them.
type tape struct {
	device, rank int
	code         []instruction
	buffers      []buffer
	// slab is the bytes of all buffers that live only within a step, store what is offloaded.
	slab  int
	store []ir.Type
	// whole is a tape of whole programs.
	whole bool
}

// instruction is one entry of a tape: it runs a program, or it is one end of a message.
type instruction struct {
	// action is the schedule's action that it belongs to; the update's stage is -1.
	action pipeline.Action
	kind   instructionKind
	// program is the index of the called program among the plan's, exe the same, compiled.
	program int
	exe     *cpu.Executable
	args    []int // buffers
	out     []int
	arena   int
	// peer and tag are those of a message, whose buffer is args[0] or out[0]; a send completes before
	// instruction until.
	peer, tag, until int
	// piece, if set, locates the part of a larger buffer that a message carries.
	piece *piece
	// loads bring parts of the batch in before a run.
	loads []load
	// copies are made after a run: from a buffer of its own to the one that could not be written while it ran.
	copies [][2]int
}

// piece locates, in a larger buffer, the part that a message carries in a buffer of its own.
type piece struct {
	buffer int
	start  []int
}

type instructionKind uint8

const (
	call instructionKind = iota
	send
	receive
)

// load is a part of the batch.
type load struct {
	buffer, batch int
	box           mesh.Box
}

// buffer is a tensor that passes between instructions. Those of state persist from step to step.
type buffer struct {
	key         bufferKey
	t           ir.Type
	first, last int
	// held is the instruction by which the last message that carries it has arrived.
	held   int
	offset int
	// offloaded means that it has no memory on the device: programs transfer it from and to the store's place
	// offset.
	offloaded bool
}

// persistent reports whether memory persists from step to step, slabbed whether it belongs to one step.
func (b *buffer) persistent() bool { return !b.transient() && !b.offloaded }
func (b *buffer) inSlab() bool     { return b.transient() && !b.offloaded }
func (b *buffer) transient() bool  { return b.key.kind == valueBuffer || b.key.kind == scratch }

// bufferKey identifies a buffer: a value of a stage's joint program for a micro-batch, or a piece of state.
type bufferKey struct {
	kind bufferKind
	// stage and micro are of a dynamic value, a sum or a number; stage is the weight of what belongs to a
	// weight.
	stage, micro, value int
}

type bufferKind uint8

const (
	valueBuffer bufferKind = iota
	scratch
	weightBuffer // stage: weight
	slotBuffer   // stage: weight, value: slot
	sumBuffer    // stage, value: weight
	scalarBuffer // value: which
	seedBuffer
	reportBuffer // value: which
	resultBuffer // micro, value: which
	inputBuffer  // micro, value: which of the batch's tensors
)
