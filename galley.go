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

// Tensor is what ops take and return: data in an eager session, or a value in a program that is being traced.
type Tensor = op.Tensor

// Type is a tensor's dtype and shape.
type Type = op.Type

// Program is a traced function: an immutable value that prints and parses. Name, Params, Nodes and Results
// are its parts, Captures the eager tensors that the trace met, NumValues how many values it has; WithResults
// is it with other results, Reordered with its nodes in another order.
type Program = ir.Func

// Node is an op in a program, the one with number Seq: Op, its operands In and results Out, and Pos, the line
// that asked for it. Released tells the line that gave its memory up, if one did.
type Node = ir.Node

// Config says what of the host to use: Threads is how many the kernels share; 0 means all cores.
type Config = cpu.Config

// Device is a place to compute, with as many Threads as its Config says. NewSession makes a scope of eager
// tensors, Compile a program ready to run, Compute and Eval run one op on arrays; DetectNaN is the same
// device that ends at the first NaN, Watched one that tells how long each node took, Doing the node that it
// is at. Backend is it as one that runs whole programs. Close ends its threads.
type Device = cpu.Device

// Session is the scope of eager tensors: an op on them runs at once, on its Device. Tensor makes one of an
// array; Backward adds gradients to the tracked tensors that one was computed from, and BackwardOf is the
// same. Autocast lets products compute in 16 bits, Watch tells of every op.
type Session = cpu.Session

// Seen is an op that a session has computed, as Session.Watch tells it: Op is its name and attributes, Pos
// the line that asked for it, In and Out its operands and results.
type Seen = cpu.Seen

// Executable is a compiled program, Func, which takes so much Memory. Run computes results for arguments,
// RunInto writes them into given memory; Twin is the same for another device. MayShare, Overwrites and
// Returns say whether a result may be, is put, or simply is, where a parameter was.
type Executable = cpu.Executable

// Memory is what a compiled program needs on a device, in bytes: an Arena for what lives only within a run,
// Params and Results. Peak is all of it.
type Memory = cpu.Memory

// BugError is a fault of Galley's own, caught where it left the framework: What went wrong, the file Report
// with the stack and, where a Pass changed a program, the file Program with it as it was before.
type BugError = fault.Error

// CPU returns the host's processor; Close ends its threads.
func CPU(c Config) *Device { return cpu.NewDevice(c) }

// Read returns the data of an eager tensor, whole wherever it lies, or the error that made it invalid.
func Read(x *Tensor) (array.Array, error) { return runtime.Read(x) }

// Trace runs f on tensors of the given types that have no data and returns the program of the ops it applied.
// The first mistake in f is the error, with its place.
func Trace(name string, in []Type, f func(in []*Tensor) []*Tensor) (p *Program, err error) {
	defer fault.Recover(name, &err)
	b := ir.NewBuilder(name)
	args := make([]*Tensor, len(in))
	for i, t := range in {
		args[i] = b.Param("", t)
	}
	return b.Build(f(args)...)
}

// Options say how a program is compiled: Donate lists parameters whose arrays results may overwrite, Observe
// is told how long each node took, NoFuse runs every op by itself.
type Options = cpu.Options

// Compile optimises a program and plans its memory.
func Compile(d *Device, p *Program, o Options) (e *Executable, err error) {
	defer fault.Recover(p.Name(), &err)
	return executor.Compile(d, p, o)
}

// Parse reads a program's text.
func Parse(text string) (*Program, error) { return ir.Parse(text, op.Lookup) }

// Grad returns the gradient of the scalar y with respect to each of xs, which eagerly must have been tracked
// before y was computed from them. It can be differentiated again. For a y that is no scalar, op.Grad takes
// what to weight it with.
func Grad(y *Tensor, xs ...*Tensor) []*Tensor {
	if err := scalar(y); err != nil {
		bad := ir.Invalid(y.Scope(), &ir.Error{Pos: ir.Caller(), Op: "grad", Err: err})
		return slices.Repeat([]*Tensor{bad}, len(xs))
	}
	return op.Grad([]*Tensor{y}, nil, xs)
}

// Derivatives is partial derivatives of f at points x [n, d] by their names, "x", "t", "xx": see
// op.Derivatives.
func Derivatives(f func(x *Tensor) *Tensor, x *Tensor, names ...string) []*Tensor {
	return op.Derivatives(f, x, names...)
}

// scalar refuses a y whose gradient would be that of something else than was meant.
func scalar(y *Tensor) error {
	if y.Err() == nil && (len(y.Shape()) > 0 || !y.DType().IsFloat()) {
		return fmt.Errorf("got %v, want a float scalar: reduce it with op.Sum or op.Mean", y.Type())
	}
	return nil
}

// Annotation asks the layout the parameters should have whose names match a pattern.
type Annotation = mesh.Annotation

// DistributeConfig says the layout a program's tensors should have. What it leaves out is inferred.
type DistributeConfig = distribute.Config

// Distributed is a program of which every value has its place on a mesh, and every device its own program.
type Distributed = distribute.Program

// Distribute infers the layout of every value of a program and makes the programs of the devices. The program
// is optimised first; parameters and results keep their numbers.
func Distribute(p *Program, c DistributeConfig) (*Distributed, error) { return distribute.New(p, c) }
