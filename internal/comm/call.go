package comm

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Pair is one message of a Permute: from one group position to another.
type Pair struct{ Source, Target int }

// Call is one member's part in a collective: its signature, which must fit those of the other members, and
// its arrays. Group's methods make calls; a Comm carries them out.
type Call struct {
	Kind  Kind
	Group *Group
	// In is the member's input; the zero Array if it contributes none.
	In array.Array
	// Dst is the memory to write the result to; the zero Array requests new memory.
	Dst array.Array
	// Reduce is the reduction of AllReduce and ReduceScatter.
	Reduce Reduce
	// Dim is the dim that is split or joined. AllToAll splits Dim and joins Concat.
	Dim, Concat int
	// Sizes is the size of each member's part along Dim.
	Sizes []int
	// Root is the position of the root, or of the peer of a Send or Recv.
	Root int
	// Tag distinguishes messages between the same two members.
	Tag int
	// Pairs are the messages of a Permute.
	Pairs []Pair

	remote *remoteTypes // set for a member that runs in another process
}

// remoteTypes holds the array types of a member in another process; a zero typ means that there is no array.
type remoteTypes struct{ in, dst typ }

// inType returns the type of the member's input, whether the member runs in this process or another.
func (c *Call) inType() typ {
	if c.remote != nil {
		return c.remote.in
	}
	return typeOf(c.In)
}

// dstType returns the type of the member's destination, whether it is in this process or another.
func (c *Call) dstType() typ {
	if c.remote != nil {
		return c.remote.dst
	}
	return typeOf(c.Dst)
}

// contributes reports whether the member's In is part of the collective.
func (c *Call) contributes() bool {
	switch c.Kind {
	case Recv, Barrier:
		return false
	case Broadcast, Scatter:
		return c.Group.pos == c.Root
	}
	return true
}

// splits reports whether the member's call specifies the sizes by which its array is split.
func (c *Call) splits() bool {
	switch c.Kind {
	case ReduceScatter, AllToAll, AllToAllV:
		return true
	case Scatter:
		return c.Group.pos == c.Root
	}
	return false
}

// Allocate allocates the result if its type follows from this member's call alone. Members call it before
// they meet, so they allocate in parallel.
func (c *Call) Allocate() {
	if c.Dst.IsValid() || !c.Kind.reduces() {
		return
	}
	t := typeOf(c.In)
	if c.Kind == ReduceScatter {
		t = t.with(c.Dim, c.Sizes[c.Group.pos])
	}
	c.Dst = array.New(t.dtype, t.shape...)
}

// Part returns the memory of the input that the member of a reduce-scatter contributes to the result of the
// given slot, if it is contiguous.
func (c *Call) Part(slot int) ([]byte, bool) {
	shape := c.In.Shape()
	if array.Shape(shape[:c.Dim]).Len() > 1 {
		return nil, false
	}
	unit := shape.Strides()[c.Dim] * c.In.DType().Size()
	from := sum(c.Sizes[:slot]) * unit
	return c.In.Bytes()[from : from+c.Sizes[slot]*unit], true
}

// typ is the dtype and shape of an array, without its data.
type typ struct {
	dtype array.DType
	shape array.Shape
}

func typeOf(a array.Array) typ { return typ{a.DType(), a.Shape()} }

func (t typ) isValid() bool { return t.dtype != array.Invalid }

func (t typ) equal(u typ) bool { return t.dtype == u.dtype && t.shape.Equal(u.shape) }

func (t typ) String() string { return t.dtype.String() + t.shape.String() }

// bytes returns the size of an array of type t.
func (t typ) bytes() int { return t.shape.Len() * t.dtype.Size() }

// with returns t with another size along dim.
func (t typ) with(dim, size int) typ {
	shape := t.shape.Clone()
	shape[dim] = size
	return typ{t.dtype, shape}
}

// String prints the signature without a sequence number.
func (c *Call) String() string { return c.text("") }

// text prints the signature, with mark after the kind: all_gather #7 f32[4,8] dim 1 of group [0 1 2 3].
func (c *Call) text(mark string) string {
	var b strings.Builder
	b.WriteString(c.Kind.String())
	b.WriteString(mark)
	switch {
	case c.contributes():
		fmt.Fprintf(&b, " %v", c.inType())
	case c.dstType().isValid():
		fmt.Fprintf(&b, " %v", c.dstType())
	}
	switch c.Kind {
	case AllReduce:
		fmt.Fprintf(&b, " %v", c.Reduce)
	case ReduceScatter:
		fmt.Fprintf(&b, " %v dim %d sizes %v", c.Reduce, c.Dim, c.Sizes)
	case AllGather:
		fmt.Fprintf(&b, " dim %d", c.Dim)
	case AllToAll:
		fmt.Fprintf(&b, " dim %d sizes %v to dim %d", c.Dim, c.Sizes, c.Concat)
	case AllToAllV:
		fmt.Fprintf(&b, " rows %v", c.Sizes)
	case Broadcast:
		fmt.Fprintf(&b, " root %d", c.Root)
	case Gather, Scatter:
		fmt.Fprintf(&b, " dim %d root %d", c.Dim, c.Root)
	case Permute:
		fmt.Fprintf(&b, " pairs %v", c.Pairs)
	case Send:
		fmt.Fprintf(&b, " to %d tag %d", c.Root, c.Tag)
	case Recv:
		fmt.Fprintf(&b, " from %d tag %d", c.Root, c.Tag)
	}
	fmt.Fprintf(&b, " of group %v", c.Group.ranks)
	return b.String()
}
