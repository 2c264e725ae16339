package backend

import (
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Backend is a device that runs local programs. Its methods may be called from several goroutines.
type Backend interface {
	// Name returns what computes, in a few words.
	Name() string
	// Compile makes a program ready to run. A program that the device cannot run is an error that names the op.
	Compile(f *ir.Func, o Options) (Executable, error)
	// Put copies an array to the device.
	Put(a array.Array) (Buffer, error)
	// Close releases everything; buffers and executables of the backend are of no use afterwards.
	Close() error
}

// Group is what a backend offers besides that has several devices which can run one program together.
type Group interface {
	// Devices returns all of them, each a backend of its own, the group's own first. They are closed with the
	// group.
	Devices() []Backend
	// CompileSPMD makes one program of those of the devices 0, 1 and so on, which exchange what its
	// collectives say; programs that cannot be one are an error that says in what they differ. Run takes the
	// arguments of device 0, then those of device 1 and so on, each where it is, and returns results alike.
	// Options speak of one device's parameters.
	CompileSPMD(fs []*ir.Func, o Options) (Executable, error)
}

// Executable is a compiled program.
type Executable interface {
	// Run computes the results for args, those of the parameters without the captured ones. It may return before
	// they are there; what goes wrong later is told by Buffer.Read. Donated args are given up, whether or not it
	// succeeds.
	Run(args []Buffer) ([]Buffer, error)
	// Memory returns what a run needs.
	Memory() Memory
	// Close gives the program's memory back.
	Close() error
}

// Buffer is an array on a device.
type Buffer interface {
	// Type returns the array's dtype and shape.
	Type() ir.Type
	// Read waits until the array is there and copies it to the host.
	Read() (array.Array, error)
	// Free releases its memory; what was donated needs none.
	Free()
}

// Options say how a program is compiled.
type Options struct {
	// Donate lists parameters whose arrays a run may overwrite with results: the caller gives them up.
	Donate []int
	// Observe, if set, receives how long each node took, by backends that run node by node.
	Observe func(n *ir.Node, took time.Duration)
	// NoFuse runs every op by itself: none are joined to loops.
	NoFuse bool
}

// Memory is what a run needs, in bytes.
type Memory struct {
	// Arena holds all that lives only within a run.
	Arena int
	// Params and Results are the caller's arrays and the new ones that a run returns; a result in donated memory
	// is counted with the params only.
	Params, Results int
}

// Peak returns the sum of all parts.
func (m Memory) Peak() int { return m.Arena + m.Params + m.Results }
