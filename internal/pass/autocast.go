package pass

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Autocast makes a forward program compute in a 16-bit dtype where its ops benefit, and in f32 where ops
// require it. Parameters and results keep their types: each parameter is cast once, so its gradient is in
// f32, and the optimizer updates master weights. Run it before differentiation.
func Autocast(f *ir.Func, dtype array.DType) (*ir.Func, error) {
	defer fault.Pass("autocast", f)
	if !dtype.IsHalf() {
		return nil, fmt.Errorf("autocast %s: dtype is %v: want bf16 or f16", f.Name(), dtype)
	}
	b := ir.NewBuilder(f.Name())
	c := NewCaster(dtype)
	results := f.Replay(b, b.ParamsOf(f), func(n *ir.Node, in []*ir.Value) []*ir.Value {
		return c.Apply(n.Op(), in, b.Apply)
	})
	for i, v := range f.Results() {
		if results[i].DType() != v.DType() {
			results[i] = op.Cast(results[i], v.DType())
		}
	}
	return b.Build(results...)
}

// Caster applies ops with operands in the dtypes that they prefer. It caches casts, so that each is made
// once.
type Caster struct {
	dtype array.DType
	cast  map[*ir.Value]*ir.Value
}

// NewCaster returns a Caster for a 16-bit dtype.
func NewCaster(dtype array.DType) *Caster {
	return &Caster{dtype: dtype, cast: map[*ir.Value]*ir.Value{}}
}

// Apply calls apply with operands that are cast if the op benefits, and returns its results.
func (c *Caster) Apply(o ir.Op, in []*ir.Value, apply func(ir.Op, []*ir.Value) []*ir.Value) []*ir.Value {
	want := op.PrecisionOf(o)
	switch {
	case want == op.Narrows, want == op.Follows && c.anyNarrow(in):
		in = c.all(in, array.F32, c.dtype)
	case want == op.Widens:
		in = c.all(in, c.dtype, array.F32)
	}
	out := apply(o, in)
	if want == op.NarrowsResult {
		out = c.all(out, array.F32, c.dtype)
	}
	return out
}

func (c *Caster) anyNarrow(in []*ir.Value) bool {
	for _, v := range in {
		if v != nil && v.DType() == c.dtype {
			return true
		}
	}
	return false
}

// all casts the values of one dtype to another.
func (c *Caster) all(in []*ir.Value, from, to array.DType) []*ir.Value {
	out := make([]*ir.Value, len(in))
	for i, v := range in {
		out[i] = v
		if v == nil || v.DType() != from {
			continue
		}
		if c.cast[v] == nil {
			c.cast[v] = op.Cast(v, to)
		}
		out[i] = c.cast[v]
	}
	return out
}
