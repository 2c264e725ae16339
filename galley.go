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

// Program is a traced function: an immutable value that prints and parses.
type Program = ir.Func

// Node is an op in a program.
type Node = ir.Node

// Config says what of the host to use.
type Config = cpu.Config

// Device is a place to compute.
type Device = cpu.Device

// Session is the scope of eager tensors: an op on them runs at once.
type Session = cpu.Session

// Seen is an op that a session has computed, as Session.Watch tells it.
type Seen = cpu.Seen

// Executable is a compiled program.
type Executable = cpu.Executable

// Memory is what a compiled program needs on a device, in bytes.
type Memory = cpu.Memory

// BugError is a fault of Galley's own, caught where it left the framework.
type BugError = fault.Error

// CPU is the host's processor; Close ends its threads.
func CPU(c Config) *Device { return cpu.NewDevice(c) }

// Read is the data of an eager tensor, whole wherever it lies, or the error that made it invalid.
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

// Options say how a program is compiled.
type Options = cpu.Options

// Compile optimises a program and plans its memory.
func Compile(d *Device, p *Program, o Options) (e *Executable, err error) {
	defer fault.Recover(p.Name(), &err)
	return executor.Compile(d, p, o)
}

// Parse reads a program's text.
func Parse(text string) (*Program, error) { return ir.Parse(text, op.Lookup) }

// Grad is the gradient of the scalar y with respect to each of xs, which eagerly must have been tracked
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
