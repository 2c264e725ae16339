package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Tensor is the operand and result type of ops: a value in a traced program, or data in an eager session.
type Tensor = ir.Value

// Type is a tensor's dtype and shape.
type Type = ir.Type

// Scope is what tensors belong to: an eager session or a trace. Ops without operands take it as an argument.
type Scope = ir.Scope

// Op defines an operation completely.
type Op interface {
	ir.Op
	// VJP returns the gradient of each operand given that of each result, built from ops, so that it can be
	// differentiated again. A nil dout means that nothing depends on that result; a nil result means no
	// gradient.
	VJP(in, out, dout []*Tensor) []*Tensor
	// Rule returns the sharding rule: which dims are the same factor of the op's iteration space.
	Rule(in []Type) mesh.Rule
	// Work returns the cost of one execution on operands of these (local) types.
	Work(in, out []Type) Work
	// Eval computes on the CPU. in and out have the inferred types and out holds arbitrary bytes; if the op has
	// an InPlace method, out may share memory with the operand that it names.
	Eval(env *Env, in, out []array.Array)
	// Emit writes the op as StableHLO.
	Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref
	// Samples returns operands on which the laws test the op, at least one.
	Samples() []Sample
}

// Work is the cost of one execution, independent of the machine.
type Work struct {
	// Flops counts a multiply-add as two.
	Flops float64
	// Bytes is the minimal traffic between memory and processor: operands once, results once.
	Bytes float64
	// Wire is the number of bytes that the busiest device sends to others: 0 unless the op is a Collective.
	Wire float64
}

// Env holds the resources that an op may use while it computes.
type Env struct {
	// Pool is the set of threads that kernels share; nil means one thread.
	Pool *kernel.Pool
	// Comm connects the device with its peers, for collectives; nil for a single device.
	Comm comm.Comm
	// Scratch is temporary memory for a Scratcher; if it is too small, the op allocates its own.
	Scratch []byte
	// Pieces reads the operands of a Piecemeal op that are not in memory; nil if there are none.
	Pieces PieceSource

	// pending holds the collectives that were started and not waited for, by the address of their results.
	pending map[*byte]*comm.Pending
	// groups caches the groups of collectives, by mesh and axes.
	groups map[string]*comm.Group
}

// Sample is one application of an op for the laws.
type Sample struct {
	// Op carries the attributes; nil means the op as it is in the list.
	Op Op
	In []Arg
}

// Arg is a sample operand: random numbers between Low and High. If both are zero, it is standard normal; for
// integers, 0 and 1.
type Arg struct {
	Type      Type
	Low, High float64
}

// Undifferentiable is implemented by ops without a gradient; NoGradient returns the reason.
type Undifferentiable interface {
	NoGradient() string
}

// InPlacer is implemented by ops whose result may overwrite an operand. InPlace returns, for each result, the
// index of that operand, or -1.
type InPlacer interface {
	InPlace() []int
}

// Aliaser is implemented by ops whose only result is the first operand's memory under another type; they are
// not evaluated where memory can be shared.
type Aliaser interface {
	Alias()
}

// Multilinear is implemented by ops that are linear in groups of their operands: f(a·x + b·y) = a·f(x) +
// b·f(y) for all operands of a group together, with the others fixed. Linear returns the groups; an empty
// group means all operands. Partial sums pass through such an op, so that they are reduced once, later, or
// not at all.
type Multilinear interface {
	Linear() [][]int
}

// Sourced is implemented by ops that compute some results from some of the operands only. Sources returns the
// operands of a result, by index.
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

// Follower is implemented by ops some of whose dims should have the same layout although the op cannot run
// with them split: a slice of a dim should have the layout of the dim. Follow returns the rule that inference
// uses in place of Rule; there, dims of different sizes may share a factor. moves names the factors along
// which only elements near the borders of shards are exchanged; starred ones need all of the dim.
type Follower interface {
	Follow(in, out []Type) (rule mesh.Rule, moves string)
}

// Composite is implemented by ops that are defined by other ops; their own kernel is only faster.
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

// bools returns a sample operand of booleans.
func bools(shape ...int) Arg { return Arg{Type: Type{DType: array.Bool, Shape: shape}} }

// oneSample returns a single sample: the op's own attributes on these operands.
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

// hloTypes converts types for the writer.
func hloTypes(ts []Type) []hlo.Type {
	out := make([]hlo.Type, len(ts))
	for i, t := range ts {
		out[i] = hlo.Type{DType: t.DType, Shape: t.Shape}
	}
	return out
}

func hloType(t Type) hlo.Type { return hlo.Type{DType: t.DType, Shape: t.Shape} }
