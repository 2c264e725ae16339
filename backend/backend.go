package backend

import (
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Backend is a device that runs local programs. Its methods may be called from several goroutines.
type Backend interface {
	// Name describes the device in a few words.
	Name() string
	// Compile makes a program ready to run. If the device does not support an op, the error names it.
	Compile(f *ir.Func, o Options) (Executable, error)
	// Put copies an array to the device.
	Put(a array.Array) (Buffer, error)
	// Close releases the device; its buffers and executables cannot be used afterwards.
	Close() error
}

// Group is implemented by a backend with several devices that can run one SPMD program together.
type Group interface {
	// Devices returns the devices, each a backend of its own, starting with the group's first. They are
	// closed with the group.
	Devices() []Backend
	// CompileSPMD compiles the programs of devices 0, 1 and so on into one executable whose collectives
	// connect them. Programs that differ too much are an error that says where. Run takes the arguments of
	// device 0, then those of device 1 and so on, each on its own device, and returns results in the same
	// order. Options refer to the parameters of one device.
	CompileSPMD(fs []*ir.Func, o Options) (Executable, error)
}

// Executable is a compiled program.
type Executable interface {
	// Run computes the results for args, which exclude captured parameters. It may return before they are
	// computed; a later failure is returned by Buffer.Read. Donated args are consumed whether or not it
	// succeeds.
	Run(args []Buffer) ([]Buffer, error)
	// Memory returns the memory that a run needs.
	Memory() Memory
	// Close frees the program's memory.
	Close() error
}

// Buffer is an array in device memory.
type Buffer interface {
	// Type returns the array's dtype and shape.
	Type() ir.Type
	// Read waits until the array is computed and copies it to the host.
	Read() (array.Array, error)
	// Free frees the buffer's memory. Donated buffers need not be freed.
	Free()
}

// Options configures compilation.
type Options struct {
	// Donate lists parameters whose memory a run may overwrite with results: the caller gives them up.
	Donate []int
	// Spend lists parameters that nobody reads after the run: after the last read of one the run may store
	// temporary values in its memory. Backends that manage memory themselves ignore it.
	Spend []int
	// Observe, if set, receives the time of each node from backends that run node by node.
	Observe func(n *ir.Node, took time.Duration)
	// NoFuse turns the fusion of ops into loops off.
	NoFuse bool
}

// Memory is the number of bytes that a run needs.
type Memory struct {
	// Arena holds the values that live only during a run.
	Arena int
	// Params are the caller's arrays, Results the new ones that a run returns; a result in donated memory
	// counts only with the params.
	Params, Results int
}

// Peak returns the sum of all parts.
func (m Memory) Peak() int { return m.Arena + m.Params + m.Results }
