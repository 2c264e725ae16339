package galley

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Tensor is the operand and result type of every op: data in an eager session, or a symbolic value while a
// program is traced.
type Tensor = op.Tensor

// Type is a tensor's dtype and shape.
type Type = op.Type

// Program is a traced function: an immutable graph that prints and parses. Name, Params, Nodes and Results
// return its parts, Captures the eager tensors that the trace closed over, NumValues the number of values.
// WithResults and Reordered return copies with other results or another node order.
type Program = ir.Func

// Node is one op in a program. Seq is its index, Op the op, In and Out its operands and results, Pos the
// source line that called it. Released returns the line that freed its memory, if any.
type Node = ir.Node

// Config configures the CPU device. Threads is the size of the thread pool that all kernels share; 0 means
// one per core.
type Config = cpu.Config

// Device is the host CPU as a compute device with a number of Threads. NewSession opens a scope for eager
// tensors, Compile makes a program ready to run, Compute and Eval run a single op on arrays. DetectNaN
// returns the same device in a mode that fails at the first NaN, Watched one that reports the time of each
// node, RunningOp the node that runs now. Backend adapts it to the interface of accelerators. Close stops its
// threads.
type Device = cpu.Device

// Session is the scope of eager tensors: an op on them runs immediately on its Device. Tensor wraps an array;
// Backward (and BackwardOf) accumulates gradients into the tracked tensors that a loss was computed from.
// Autocast makes matrix products compute in 16 bits, Watch calls a function for every op.
type Session = cpu.Session

// ExecutedOp describes one op that a session has run, for Session.Watch: Op is its name with attributes, Pos
// the source line that called it, In and Out its operands and results.
type ExecutedOp = cpu.ExecutedOp

// Executable is a compiled program, Func, with planned Memory. Run computes results, RunInto writes them to
// memory that you provide, Twin returns the same executable for another device. MayShare, Overwrites and
// Returns report whether a result may use, does use, or simply is the memory of a parameter.
type Executable = cpu.Executable

// Memory is the number of bytes a compiled program needs on a device: Arena for values that live only during
// a run, Params and Results. Peak returns their sum.
type Memory = cpu.Memory

// BugError is an internal error of Galley, caught at the API boundary. What describes it, Report is a file
// with the stack trace, and if a compiler pass failed, Program is a file with the program that Pass was
// given. Please attach both to a bug report.
type BugError = fault.Error

// CPU returns the host processor as a device. Close stops its threads.
func CPU(c Config) *Device { return cpu.NewDevice(c) }

// Read returns the data of an eager tensor, gathered from all devices if it is sharded, or the error that
// made the tensor invalid.
func Read(x *Tensor) (array.Array, error) { return runtime.Read(x) }

// Trace calls f with symbolic tensors of the given types and returns the program of the ops that f applied.
// The first mistake in f is returned as an error with its source line.
func Trace(name string, in []Type, f func(in []*Tensor) []*Tensor) (p *Program, err error) {
	defer fault.Recover(name, &err)
	b := ir.NewBuilder(name)
	args := make([]*Tensor, len(in))
	for i, t := range in {
		args[i] = b.Param("", t)
	}
	return b.Build(f(args)...)
}

// Options configures Compile: Donate lists parameters whose memory results may overwrite, Spend those that a
// run may compute in once it has read them, Observe receives the time of each node, NoFuse turns the fusion
// of ops into loops off.
type Options = cpu.Options

// Compile optimises a program and plans its memory, ready to run on d.
func Compile(d *Device, p *Program, o Options) (e *Executable, err error) {
	defer fault.Recover(p.Name(), &err)
	return executor.Compile(d, p, o)
}

// Parse reads a program from its printed form.
func Parse(text string) (*Program, error) { return ir.Parse(text, op.Lookup) }

// Grad returns the gradient of the scalar y with respect to each of xs. Eager xs must have been tracked
// before y was computed. The result can be differentiated again. For a y that is not a scalar use op.Grad,
// which takes the incoming gradient.
func Grad(y *Tensor, xs ...*Tensor) []*Tensor {
	if err := scalar(y); err != nil {
		bad := ir.Invalid(y.Scope(), &ir.Error{Pos: ir.Caller(), Op: "grad", Err: err})
		return slices.Repeat([]*Tensor{bad}, len(xs))
	}
	return op.Grad([]*Tensor{y}, nil, xs)
}

// Derivatives returns partial derivatives of f at the points x [n, d], selected by names such as "x", "t" or
// "xx"; see op.Derivatives.
func Derivatives(f func(x *Tensor) *Tensor, x *Tensor, names ...string) []*Tensor {
	return op.Derivatives(f, x, names...)
}

// scalar returns an error if y is not a float scalar: its gradient would not be what the caller expects.
func scalar(y *Tensor) error {
	if y.Err() == nil && (len(y.Shape()) > 0 || !y.DType().IsFloat()) {
		return fmt.Errorf("got %v, want a float scalar: reduce it with op.Sum or op.Mean", y.Type())
	}
	return nil
}

// Annotation requests a sharding for the parameters whose names match a pattern.
type Annotation = mesh.Annotation

// DistributeConfig configures Distribute: the mesh and the requested shardings. Whatever it leaves out is
// inferred.
type DistributeConfig = distribute.Config

// Distributed is a program with a sharding for every value and a local program for every device.
type Distributed = distribute.Program

// Distribute infers the sharding of every value of a program and partitions it into one program per device.
// The program is optimised first; parameters and results keep their order.
func Distribute(p *Program, c DistributeConfig) (*Distributed, error) { return distribute.New(p, c) }
