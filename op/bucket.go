package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// Bucketer is a collective of which several of one group can travel as one: what it does to an element does
// not depend on the others. Operands and results are laid flat, in rows that the group deals with as wholes.
type Bucketer interface {
	Collective
	// BucketKey tells apart those that cannot travel together; it is not ok where an op cannot at all.
	BucketKey() (key string, ok bool)
	// Flat returns an operand as rows, and Joint the op on rows.
	Flat(x *Tensor) *Tensor
	Joint() Op
	// Unflat returns the result of a type, from its columns of the joint result.
	Unflat(y *Tensor, t Type) *Tensor
}

// Bucket sends operands of collectives of one key together. Each of the functions that it returns makes one
// of the results, when it is wanted.
func Bucket(nodes []*ir.Node, in []*Tensor) []func() *Tensor {
	flat := make([]*Tensor, len(nodes))
	for i, n := range nodes {
		flat[i] = n.Op().(Bucketer).Flat(in[i])
	}
	all := ir.Apply(nodes[0].Op().(Bucketer).Joint(), Concat(flat, 1))[0]
	results := make([]func() *Tensor, len(nodes))
	at := 0
	for i, n := range nodes {
		start, end := at, at+flat[i].Dim(1)
		results[i] = func() *Tensor {
			return n.Op().(Bucketer).Unflat(Narrow(all, 1, start, end), n.Out()[0].Type())
		}
		at = end
	}
	return results
}

func (o allReduce) BucketKey() (string, bool)            { return ir.FormatOp(o), !o.Async }
func (allReduce) Flat(x *Tensor) *Tensor                 { return Reshape(x, 1, x.Shape().Len()) }
func (o allReduce) Joint() Op                            { return o }
func (allReduce) Unflat(y *Tensor, t Type) *Tensor       { return Reshape(y, t.Shape...) }
func (o allGather) Flat(x *Tensor) *Tensor               { return Reshape(x, 1, x.Shape().Len()) }
func (o reduceScatter) Unflat(y *Tensor, t Type) *Tensor { return Reshape(y, t.Shape...) }

// BucketKey of parts that are equal; others have sizes of their own.
func (o allGather) BucketKey() (string, bool) {
	return "all_gather " + o.Mesh + " " + o.Axes, even(o.Sizes) == nil && !o.Async
}

func (o allGather) Joint() Op { return allGather{Mesh: o.Mesh, Axes: o.Axes} }

// Unflat puts the devices' parts, one a row, side by side along the dim.
func (o allGather) Unflat(y *Tensor, t Type) *Tensor {
	n := teamSize(o.Mesh, o.Axes)
	shape := slices.Clone(t.Shape)
	shape[o.Dim] /= n
	return Reshape(inward(Reshape(y, append([]int{n}, shape...)...), o.Dim), t.Shape...)
}

// BucketKey of parts that are equal; others have sizes of their own.
func (o reduceScatter) BucketKey() (string, bool) {
	return "reduce_scatter " + o.Kind + " " + o.Mesh + " " + o.Axes, even(o.Sizes) == nil && !o.Async
}

func (o reduceScatter) Joint() Op { return reduceScatter{Mesh: o.Mesh, Axes: o.Axes, Kind: o.Kind} }

// Flat has a row for each device's part.
func (o reduceScatter) Flat(x *Tensor) *Tensor {
	n := teamSize(o.Mesh, o.Axes)
	return Reshape(outward(parted(x, o.Dim, n), o.Dim), n, x.Shape().Len()/n)
}

// parted returns x with a dim seen as n parts and what each has.
func parted(x *Tensor, dim, n int) *Tensor {
	shape := append(slices.Clone(x.Shape()[:dim]), n, x.Dim(dim)/n)
	return Reshape(x, append(shape, x.Shape()[dim+1:]...)...)
}

// outward returns x with a dim moved to the front, inward with the front moved to a dim.
func outward(x *Tensor, dim int) *Tensor {
	order := []int{dim}
	for d := range x.Shape() {
		if d != dim {
			order = append(order, d)
		}
	}
	return Transpose(x, order...)
}

func inward(x *Tensor, dim int) *Tensor {
	var order []int
	for d := 1; d < len(x.Shape()); d++ {
		order = append(order, d)
	}
	return Transpose(x, slices.Insert(order, dim, 0)...)
}
