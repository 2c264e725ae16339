package cpu

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Modes are settings for all ops of an eager session: to compute in 16 bits where they benefit, and to be
// observed.
type Modes struct {
	caster *pass.Caster
	watch  func(ExecutedOp)
}

// ExecutedOp is an op that an eager session has computed.
type ExecutedOp struct {
	// Op is its name and attributes, Pos the source line that applied it.
	Op  string
	Pos string
	// In and Out are its operands and results: they have data, and OnGrad of a tracked one observes its
	// gradient.
	In, Out []*op.Tensor
}

// Watch calls f for every op that the session computes forward, until stop is called, so that any tensor can
// be inspected, also within layers. For its gradient call OnGrad of a tensor of ExecutedOp.Out.
func (m *Modes) Watch(f func(ExecutedOp)) (stop func()) {
	old := m.watch
	m.watch = f
	return func() { m.watch = old }
}

// Autocast returns f computed with ops in a 16-bit dtype, bf16 or f16, where they benefit, and in f32 where
// they require it, as PyTorch's autocast does. Parameters keep their dtype: their gradients are f32.
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

// Apply applies an op by apply according to the modes.
func (m *Modes) Apply(o ir.Op, in []*ir.Value, apply func(ir.Op, []*ir.Value) []*ir.Value) []*ir.Value {
	c := m.caster
	if c == nil {
		return m.observe(o, in, apply)
	}
	m.caster = nil // casts themselves are not autocast
	defer func() { m.caster = c }()
	return c.Apply(o, in, func(o ir.Op, in []*ir.Value) []*ir.Value { return m.observe(o, in, apply) })
}

func (m *Modes) observe(o ir.Op, in []*ir.Value, apply func(ir.Op, []*ir.Value) []*ir.Value) []*ir.Value {
	out := apply(o, in)
	if f := m.watch; f != nil {
		m.watch = nil // ops within f are not observed
		defer func() { m.watch = f }()
		f(ExecutedOp{Op: ir.FormatOp(o), Pos: string(ir.Caller()), In: in, Out: out})
	}
	return out
}

// BackwardOf runs op.Backward on a tensor, whose own ops are neither autocast nor observed.
func (m *Modes) BackwardOf(y *ir.Value) error {
	old := *m
	*m = Modes{}
	defer func() { *m = old }()
	return op.Backward([]*ir.Value{y}, nil, op.BackwardConfig{})
}
