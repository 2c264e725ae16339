package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Modes is what a user can ask of all ops of an eager session: to compute in 16 bits where they gain from it,
// and to be looked at.
type Modes struct {
	caster *pass.Caster
	watch  func(ExecutedOp)
}

// ExecutedOp is an op that an eager session has computed.
type ExecutedOp struct {
	// Op is its name and attributes, Pos the line that asked for it.
	Op  string
	Pos string
	// In and Out are its operands and results: they have data, and of a tracked one OnGrad tells the gradient.
	In, Out []*op.Tensor
}

// Watch has f told of every op that the session computes forward, until stop is called: so any tensor can be
// looked at, within layers too. Its gradient comes to what ExecutedOp.Out's OnGrad is given.
func (m *Modes) Watch(f func(ExecutedOp)) (stop func()) {
	old := m.watch
	m.watch = f
	return func() { m.watch = old }
}

// Autocast returns f with ops that compute in a 16-bit dtype, bf16 or f16, where they gain from it, and in
// f32 where they need it, as PyTorch's autocast does. Parameters stay as they are: their gradients are f32.
func (m *Modes) Autocast(dtype array.DType, f func() *op.Tensor) *op.Tensor {
	if !dtype.IsHalf() {
		y := f()
		if y == nil || y.Err() != nil {
			return y
		}
		return ir.Invalid(y.Scope(), &ir.Error{Pos: ir.Caller(), Op: "autocast",
			Err: fmt.Errorf("dtype is %v: want bf16 or f16", dtype)})
	}
	old := m.caster
	m.caster = pass.NewCaster(dtype)
	defer func() { m.caster = old }()
	return f()
}

// Apply applies an op by apply as the modes say.
func (m *Modes) Apply(o ir.Op, in []*ir.Value, apply func(ir.Op, []*ir.Value) []*ir.Value) []*ir.Value {
	c := m.caster
	if c == nil {
		return m.seen(o, in, apply)
	}
	m.caster = nil // casts are as they are
	defer func() { m.caster = c }()
	return c.Apply(o, in, func(o ir.Op, in []*ir.Value) []*ir.Value { return m.seen(o, in, apply) })
}

func (m *Modes) seen(o ir.Op, in []*ir.Value, apply func(ir.Op, []*ir.Value) []*ir.Value) []*ir.Value {
	out := apply(o, in)
	if f := m.watch; f != nil {
		m.watch = nil // what f computes is its own
		defer func() { m.watch = f }()
		f(ExecutedOp{Op: ir.FormatOp(o), Pos: string(ir.Caller()), In: in, Out: out})
	}
	return out
}

// BackwardOf is op.Backward of a tensor, whose own ops are computed as they are.
func (m *Modes) BackwardOf(y *ir.Value) error {
	old := *m
	*m = Modes{}
	defer func() { *m = old }()
	return op.Backward([]*ir.Value{y}, nil, op.BackwardConfig{})
}
