package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Tensor is what ops take and return: a value in a traced program, or data in an eager session.
type Tensor = ir.Value

// Type is a tensor's dtype and shape.
type Type = ir.Type

// Scope is where tensors live: an eager session or a trace. Ops without operands need to be told it.
type Scope = ir.Scope

// Op is everything there is to say of an operation.
type Op interface {
	ir.Op
	// VJP returns the gradient of each operand given that of each result, built from ops, so that it can be
	// differentiated again. A nil dout is a result that nothing depends on; a nil answer is no gradient.
	VJP(in, out, dout []*Tensor) []*Tensor
	// Rule returns which dims are the same factor of the op's iteration space.
	Rule(in []Type) mesh.Rule
	// Work returns what one execution costs on operands of these (local) types.
	Work(in, out []Type) Work
	// Eval computes on the CPU. in and out have the inferred types and out holds arbitrary bytes; where the op
	// has an InPlace method, out may share memory with the operand that it names.
	Eval(env *Env, in, out []array.Array)
	// Emit writes the op as StableHLO.
	Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref
	// Samples is like operands on which the laws try the op: at least one.
	Samples() []Sample
}

// Work is the cost of one execution on any machine.
type Work struct {
	// Flops counts a multiply-add as two.
	Flops float64
	// Bytes is what must move between memory and the processor at least: operands once, results once.
	Bytes float64
	// Wire is the bytes that the busiest device sends to others: 0 unless the op is a Collective.
	Wire float64
}

// Env is what an op may use while it computes.
type Env struct {
	// Pool is the threads that kernels share; nil is one thread.
	Pool *kernel.Pool
	// Comm is the device's end of the world, by which collectives reach their peers; nil is a device alone.
	Comm comm.Comm
	// Scratch is memory that a Scratcher may use while it computes; where it is short, an op takes its own.
	Scratch []byte
	// Pieces has the operands of a Piecemeal op that are not in memory; nil is none.
	Pieces PieceSource

	// pending is the exchanges that were started and not waited for, by where their results go.
	pending map[*byte]*comm.Pending
	// groups is the groups that collectives have asked for, by mesh and axes.
	groups map[string]*comm.Group
}

// Sample is one application of an op for the laws.
type Sample struct {
	// Op carries the attributes; nil is the op as it is in the list.
	Op Op
	In []Arg
}

// Arg is a sample operand: random numbers between Low and High. Both zero means a standard normal, for
// integers the numbers 0 and 1.
type Arg struct {
	Type      Type
	Low, High float64
}

// Undifferentiable is an op without a gradient; it says why.
type Undifferentiable interface {
	NoGradient() string
}

// InPlacer is an op whose result may be written over an operand. InPlace returns, for each result, the index
// of that operand, or -1.
type InPlacer interface {
	InPlace() []int
}

// Aliaser is an op whose only result is its first operand's memory under another type; it is never evaluated
// where memory can be shared.
type Aliaser interface {
	Alias()
}

// Multilinear is an op that is linear in groups of its operands: f(a·x + b·y) = a·f(x) + b·f(y) for all
// operands of a group together, the others fixed. Linear returns the groups; an empty group is all operands.
// Partial sums pass through such an op, so that they are reduced once, later, or not at all.
type Multilinear interface {
	Linear() [][]int
}

// Sourced is an op some of whose results are computed from some of the operands only. Sources is the operands
// that a result, by its number, is computed from.
type Sourced interface {
	Sources(result int) []int
}

// Sources returns the operands that a node's result is computed from.
func Sources(v *Tensor) []*Tensor {
	o, ok := v.Node().Op().(Sourced)
	if !ok {
		return v.Node().In()
	}
	var list []*Tensor
	for _, i := range o.Sources(v.Index()) {
		list = append(list, v.Node().In()[i])
	}
	return list
}

// Follower is an op some of whose dims should have one layout although it cannot run with them split: what is
// cut from a dim should have the layout of the dim. Follow is the rule by which inference goes in place of
// Rule; there dims of different sizes may share a factor. moves names the factors along which only elements
// near the borders would have to change places; starred ones need all of the dim.
type Follower interface {
	Follow(in, out []Type) (rule mesh.Rule, moves string)
}

// Composite is an op that is defined by others; its own kernel is only faster.
type Composite interface {
	Op
	Decompose(in []*Tensor) []*Tensor
}

func apply1(o Op, in ...*Tensor) *Tensor { return ir.Apply(o, in...)[0] }

// f32 returns a sample operand of normal numbers.
func f32(shape ...int) Arg { return Arg{Type: Type{DType: array.F32, Shape: shape}} }

// f32In returns a sample operand of numbers between low and high.
func f32In(low, high float64, shape ...int) Arg {
	return Arg{Type: Type{DType: array.F32, Shape: shape}, Low: low, High: high}
}

// i32Below returns a sample operand of indices below n.
func i32Below(n int, shape ...int) Arg {
	return Arg{Type: Type{DType: array.I32, Shape: shape}, High: float64(n)}
}

// bytesArg returns a sample operand of bytes.
func bytesArg(shape ...int) Arg { return Arg{Type: Type{DType: array.U8, Shape: shape}, High: 256} }

// bools returns a sample operand of truth values.
func bools(shape ...int) Arg { return Arg{Type: Type{DType: array.Bool, Shape: shape}} }

// oneSample returns what most ops need: their own attributes on these operands.
func oneSample(in ...Arg) []Sample { return []Sample{{In: in}} }

// moved returns the bytes of all operands and results.
func moved(in, out []Type) float64 {
	n := 0
	for _, t := range in {
		n += t.Bytes()
	}
	for _, t := range out {
		n += t.Bytes()
	}
	return float64(n)
}

// hloTypes returns ir types for the writer.
func hloTypes(ts []Type) []hlo.Type {
	out := make([]hlo.Type, len(ts))
	for i, t := range ts {
		out[i] = hlo.Type{DType: t.DType, Shape: t.Shape}
	}
	return out
}

func hloType(t Type) hlo.Type { return hlo.Type{DType: t.DType, Shape: t.Shape} }
