package op

import (
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Types for passes of other modules.
type (
	// Program is a traced function; Rewrite builds another one from it, node by node.
	Program = ir.Func
	// Node is an op in a program; Builder builds a new program.
	Node    = ir.Node
	Builder = ir.Builder
)

// Types for the methods of an Op from another module.
type (
	// Writer writes a program as StableHLO, Ref is a value of it and HLOType the type of one.
	Writer  = hlo.Writer
	Ref     = hlo.Ref
	HLOType = hlo.Type
)

var registered struct {
	sync.RWMutex
	ops []Op
}

// Register registers an op of another module, so that programs with it can be parsed: plans, checkpoints of
// programs and programs of other processes. Call it once, from an init function; optest.Run checks the laws
// that an op must satisfy.
func Register(o Op) error {
	if o == nil || o.Name() == "" {
		return fmt.Errorf("op: register: the op has no name")
	}
	if len(o.Samples()) == 0 {
		return fmt.Errorf("op: register %s: it has no sample, on which the laws could try it", o.Name())
	}
	if _, ok := Lookup(o.Name()); ok {
		return fmt.Errorf("op: register %s: there is an op of that name", o.Name())
	}
	registered.Lock()
	defer registered.Unlock()
	registered.ops = append(registered.ops, o)
	return nil
}

// fromOutside returns the registered ops of other modules.
func fromOutside() []Op {
	registered.RLock()
	defer registered.RUnlock()
	return slices.Clone(registered.ops)
}

// Apply applies an op of any module to tensors of one scope: it computes in an eager session and adds a node
// to a trace. An error makes the results invalid; they carry it with the user's source line.
func Apply(o Op, in ...*Tensor) []*Tensor { return ir.Apply(o, in...) }

// VJPByParts returns the gradient of a composite through its definition, for composites without a better VJP.
func VJPByParts(o Composite, in, dout []*Tensor) []*Tensor { return vjpByParts(o, in, dout) }

// EmitByParts writes a composite as its definition, for composites without a better Emit.
func EmitByParts(o Composite, w *Writer, in []Ref, out []Type) []Ref {
	return emitByParts(o, w, in, out)
}

// SameRule returns the sharding rule of an op whose operands and results all have the same rank dims.
func SameRule(rank, operands, results int) mesh.Rule { return sameRule(rank, operands, results) }

// Split runs f over [0,n) in pieces of fixed size, on the threads that kernels share.
func (env *Env) Split(n int, f func(lo, hi int)) { env.split(n, f) }
