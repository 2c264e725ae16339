package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Localizer is implemented by ops whose attributes refer to the whole tensors, such as sizes and offsets.
// Localize returns the op that a device runs on its shards. Other ops run unchanged, whatever the sizes of
// the shards.
//
// A localized op is an ordinary op and may be localized again.
type Localizer interface {
	Localize(at *Place) (Op, error)
}

// Place is one device's share of an op on a mesh.
//
//	p, _ := o.Rule(in).Bind(shapes(in), shapes(out))
//	at, _ := op.NewPlace(p, m, assignment, device, in, out)
//	local, _ := op.Localize(o, at) // takes at.LocalIn, returns at.LocalOut
type Place struct {
	// Rule is the op's rule, bound to the global shapes, and Assign the axes that split its factors.
	Rule   *mesh.Parsed
	Assign mesh.Assignment
	// Ranges holds the device's range of each factor.
	Ranges []mesh.Range
	// In and Out are the types of the whole tensors, LocalIn and LocalOut those of the device's shards.
	In, Out, LocalIn, LocalOut []Type

	mesh   *mesh.Mesh
	device int
}

// NewPlace returns a device's share of an op under a legal assignment.
func NewPlace(p *mesh.Parsed, m *mesh.Mesh, a mesh.Assignment, device int, in, out []Type) (*Place, error) {
	ranges, err := p.Ranges(m, a, device)
	if err != nil {
		return nil, err
	}
	localIn, localOut, err := p.Local(m, a, device)
	if err != nil {
		return nil, err
	}
	return &Place{Rule: p, Assign: a, Ranges: ranges, In: in, Out: out, mesh: m, device: device,
		LocalIn: withShapes(in, localIn), LocalOut: withShapes(out, localOut)}, nil
}

// NewPart returns the place of one part of each factor without a mesh, such as the rows of a micro-batch.
func NewPart(p *mesh.Parsed, ranges []mesh.Range, in, out []Type) *Place {
	at := &Place{Rule: p, Assign: make(mesh.Assignment, len(p.Factors)), Ranges: ranges, In: in, Out: out}
	for t := range p.NumTensors() {
		local := Type{DType: at.whole(t).DType, Shape: make(array.Shape, len(p.Tensor(t)))}
		for d := range local.Shape {
			local.Shape[d] = at.Range(t, d).Size
		}
		if t < len(in) {
			at.LocalIn = append(at.LocalIn, local)
		} else {
			at.LocalOut = append(at.LocalOut, local)
		}
	}
	return at
}

func withShapes(ts []Type, shapes [][]int) []Type {
	out := make([]Type, len(ts))
	for i, t := range ts {
		out[i] = Type{DType: t.DType, Shape: shapes[i]}
	}
	return out
}

// Localize returns the op that the device of a place runs in place of o. It fails if its results on the local
// operands do not have the local types.
func Localize(o Op, at *Place) (Op, error) {
	local := o
	if l, ok := o.(Localizer); ok {
		var err error
		if local, err = l.Localize(at); err != nil {
			return nil, fmt.Errorf("%s on device %d: %w", o.Name(), at.device, err)
		}
	}
	out, err := local.Infer(at.LocalIn)
	if err != nil {
		return nil, fmt.Errorf("%s on device %d: %w", ir.FormatOp(local), at.device, err)
	}
	if !slices.EqualFunc(out, at.LocalOut, Type.Equal) {
		return nil, fmt.Errorf("%s on device %d: got %v, want %v", ir.FormatOp(local), at.device, out, at.LocalOut)
	}
	return local, nil
}

// Range returns the device's range of a dim; tensors are numbered as in the rule, operands first.
func (at *Place) Range(t, dim int) mesh.Range {
	r := mesh.Range{Size: 1}
	for _, name := range at.Rule.Tensor(t)[dim] {
		f := at.Rule.Index(name)
		r.Start = r.Start*at.Rule.Factors[f].Size + at.Ranges[f].Start
		r.Size *= at.Ranges[f].Size
	}
	if len(at.Rule.Tensor(t)[dim]) == 0 {
		r.Size = at.whole(t).Shape[dim]
	}
	return r
}

func (at *Place) whole(t int) Type {
	if t < len(at.In) {
		return at.In[t]
	}
	return at.Out[t-len(at.In)]
}

// InRange returns the device's range of a dim of an operand.
func (at *Place) InRange(i, dim int) mesh.Range { return at.Range(i, dim) }

// OutRange returns the device's range of a dim of a result.
func (at *Place) OutRange(i, dim int) mesh.Range { return at.Range(len(at.In)+i, dim) }

// Starts returns where the device's shard of a result begins along each dim.
func (at *Place) Starts(result int) []int {
	starts := make([]int, len(at.Out[result].Shape))
	for d := range starts {
		starts[d] = at.OutRange(result, d).Start
	}
	return starts
}

// OutShape returns the shape of the device's shard of a result.
func (at *Place) OutShape(result int) array.Shape { return at.LocalOut[result].Shape }

// along returns the device's position along axes.
func (at *Place) along(axes mesh.Axes) int {
	i, _ := at.mesh.Index(at.device)
	return along(at.mesh, i, axes)
}

// First reports whether the device is the first one along the axes that split a dim of an operand. It
// contributes what must be counted once in a sum.
func (at *Place) First(operand, dim int) (bool, error) {
	var axes mesh.Axes
	for _, name := range at.Rule.In[operand][dim] {
		axes = append(axes, at.Assign[at.Rule.Index(name)]...)
	}
	if len(axes) == 0 {
		return true, nil
	}
	group, err := at.mesh.GroupOf(at.device, axes)
	if err != nil {
		return false, err
	}
	return group[0] == at.device, nil
}
