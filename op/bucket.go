package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// Bucketer is implemented by collectives that can be merged into one, because they treat every element
// independently. Operands are flattened into rows; the group treats each row as a whole.
type Bucketer interface {
	Collective
	// BucketKey returns a key that is equal for collectives that can be merged; ok is false if the op cannot be
	// merged at all.
	BucketKey() (key string, ok bool)
	// Flat returns an operand as rows, and Joint the op on rows.
	Flat(x *Tensor) *Tensor
	Joint() Op
	// Unflat returns the result of type t from its columns of the merged result.
	Unflat(y *Tensor, t Type) *Tensor
}

// Bucket merges collectives of one key into one. Each returned function extracts one of the results, when it
// is needed.
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

// BucketKey requires parts of equal size.
func (o allGather) BucketKey() (string, bool) {
	return "all_gather " + o.Mesh + " " + o.Axes, even(o.Sizes) == nil && !o.Async
}

func (o allGather) Joint() Op { return allGather{Mesh: o.Mesh, Axes: o.Axes} }

// Unflat concatenates the devices' parts, one per row, along the dim.
func (o allGather) Unflat(y *Tensor, t Type) *Tensor {
	n := teamSize(o.Mesh, o.Axes)
	shape := slices.Clone(t.Shape)
	shape[o.Dim] /= n
	return Reshape(inward(Reshape(y, append([]int{n}, shape...)...), o.Dim), t.Shape...)
}

// BucketKey requires parts of equal size.
func (o reduceScatter) BucketKey() (string, bool) {
	return "reduce_scatter " + o.Kind + " " + o.Mesh + " " + o.Axes, even(o.Sizes) == nil && !o.Async
}

func (o reduceScatter) Joint() Op { return reduceScatter{Mesh: o.Mesh, Axes: o.Axes, Kind: o.Kind} }

// Flat makes one row for each device's part.
func (o reduceScatter) Flat(x *Tensor) *Tensor {
	n := teamSize(o.Mesh, o.Axes)
	return Reshape(outward(parted(x, o.Dim, n), o.Dim), n, x.Shape().Len()/n)
}

// parted returns x with a dim split into n parts and the size of each.
func parted(x *Tensor, dim, n int) *Tensor {
	shape := append(slices.Clone(x.Shape()[:dim]), n, x.Dim(dim)/n)
	return Reshape(x, append(shape, x.Shape()[dim+1:]...)...)
}

// outward moves a dim of x to the front; inward moves the front dim back.
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
