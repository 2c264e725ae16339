package pass

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Autocast makes a forward program compute in a 16-bit dtype where its ops gain from it, and in f32 where
// they say that they need it. Parameters and results keep their types: each parameter is cast once, so its
// gradient comes back in f32, and an optimizer sees master weights. Run it before the gradient is taken.
func Autocast(f *ir.Func, dtype array.DType) (*ir.Func, error) {
	defer fault.Pass("autocast", f)
	if !dtype.IsHalf() {
		return nil, fmt.Errorf("autocast %s: dtype is %v: want bf16 or f16", f.Name(), dtype)
	}
	b := ir.NewBuilder(f.Name())
	c := caster{dtype: dtype, cast: map[*ir.Value]*ir.Value{}}
	results := f.Replay(b, b.ParamsOf(f), func(n *ir.Node, in []*ir.Value) []*ir.Value {
		return c.node(b, n,
			in)
	})
	for i, v := range f.Results() {
		if results[i].DType() != v.DType() {
			results[i] = op.Cast(results[i], v.DType())
		}
	}
	return b.Build(results...)
}

// caster remembers the casts that it made, so that each is made once.
type caster struct {
	dtype array.DType
	cast  map[*ir.Value]*ir.Value
}

func (c *caster) node(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
	want := op.PrecisionOf(n.Op())
	switch {
	case want == op.Narrows, want == op.Follows && c.anyNarrow(in):
		in = c.all(in, array.F32, c.dtype)
	case want == op.Widens:
		in = c.all(in, c.dtype, array.F32)
	}
	out := b.Apply(n.Op(), in)
	if want == op.NarrowsResult {
		out = c.all(out, array.F32, c.dtype)
	}
	return out
}

func (c *caster) anyNarrow(in []*ir.Value) bool {
	for _, v := range in {
		if v.DType() == c.dtype {
			return true
		}
	}
	return false
}

// all is values with those of one dtype cast to another.
func (c *caster) all(in []*ir.Value, from, to array.DType) []*ir.Value {
	out := make([]*ir.Value, len(in))
	for i, v := range in {
		out[i] = v
		if v.DType() != from {
			continue
		}
		if c.cast[v] == nil {
			c.cast[v] = op.Cast(v, to)
		}
		out[i] = c.cast[v]
	}
	return out
}
