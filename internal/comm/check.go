package comm

import (
	"fmt"
	"slices"
	"unsafe"
)

// Check reports errors that the call shows by itself, before it is compared with those of its peers.
func (c *Call) Check() error {
	if err := c.checkArrays(); err != nil {
		return err
	}
	if err := c.checkDims(); err != nil {
		return err
	}
	if err := c.checkSizes(); err != nil {
		return err
	}
	if err := c.checkPeers(); err != nil {
		return err
	}
	return c.checkAlias()
}

func (c *Call) checkArrays() error {
	if c.contributes() && !c.In.IsValid() {
		return fmt.Errorf("%v: no array to give: got the zero array", c.Kind)
	}
	if c.Kind == Recv && !c.Dst.IsValid() {
		return fmt.Errorf("recv: no array to receive into: got the zero array, want one of the sender's type")
	}
	if c.Kind.reduces() && !c.Reduce.Takes(c.In.DType()) {
		return fmt.Errorf("%v: %v cannot combine %v", c.Kind, c.Reduce, typeOf(c.In))
	}
	return nil
}

func (c *Call) checkDims() error {
	switch c.Kind {
	case AllGather, Gather, ReduceScatter, Scatter, AllToAll, AllToAllV:
	default:
		return nil
	}
	if !c.contributes() {
		return nil
	}
	for _, d := range [...]int{c.Dim, c.Concat} { // Concat is 0 in kinds that do not use it
		if n := len(c.inType().shape); d < 0 || d >= n {
			return fmt.Errorf("%v: dim %d of %v: want one of its %d dims", c.Kind, d, c.inType(), n)
		}
	}
	return nil
}

func (c *Call) checkSizes() error {
	if !c.splits() {
		return nil
	}
	k, dim := c.Group.Size(), c.inType().shape[c.Dim]
	if len(c.Sizes) != k {
		return fmt.Errorf("%v: sizes %v of dim %d of %v: got %d, want one for each of %d members",
			c.Kind, c.Sizes, c.Dim, c.inType(), len(c.Sizes), k)
	}
	sum := 0
	for _, n := range c.Sizes {
		if n < 0 {
			return fmt.Errorf("%v: sizes %v: got %d, want none negative", c.Kind, c.Sizes, n)
		}
		sum += n
	}
	if sum != dim {
		return fmt.Errorf("%v: sizes %v of dim %d of %v: got %d in all, want %d", c.Kind, c.Sizes, c.Dim,
			c.inType(), sum, dim)
	}
	return nil
}

func (c *Call) checkPeers() error {
	k := c.Group.Size()
	if c.Root < 0 || c.Root >= k {
		return fmt.Errorf("%v: position %d: want one of the group's %d", c.Kind, c.Root, k)
	}
	if len(c.Pairs) == 0 {
		return nil
	}
	sources, targets := make([]bool, k), make([]bool, k)
	for _, p := range c.Pairs {
		if p.Source < 0 || p.Source >= k || p.Target < 0 || p.Target >= k {
			return fmt.Errorf("permute: pair %v: want positions below %d", p, k)
		}
		if sources[p.Source] || targets[p.Target] {
			return fmt.Errorf("permute: pairs %v: a source or target comes twice: want each once at most", c.Pairs)
		}
		sources[p.Source], targets[p.Target] = true, true
	}
	return nil
}

// checkAlias rejects a destination that overlaps an input which peers still read. AllReduce and Broadcast may
// work in place: they read an element before they write it.
func (c *Call) checkAlias() error {
	in, dst := c.In.Bytes(), c.Dst.Bytes()
	if !c.contributes() || len(in) == 0 || len(dst) == 0 {
		return nil
	}
	same := &in[0] == &dst[0] && (c.Kind == AllReduce || c.Kind == Broadcast)
	if !same && overlap(in, dst) {
		return fmt.Errorf("%v: destination %v shares memory with the operand %v", c.Kind, typeOf(c.Dst),
			typeOf(c.In))
	}
	return nil
}

func overlap(a, b []byte) bool {
	a0, b0 := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}

// disagreement describes how two members' calls of one collective differ; it returns "" if they match.
func disagreement(a, b *Call) string {
	if a.Kind.pairwise() && b.Kind.pairwise() {
		return messageDisagreement(a, b)
	}
	switch {
	case a.Kind != b.Kind:
		return "kinds"
	case a.Kind.reduces() && a.Reduce != b.Reduce:
		return "reductions"
	case a.Dim != b.Dim || a.Concat != b.Concat:
		return "dims"
	case a.Root != b.Root:
		return "roots"
	case !slices.Equal(a.Pairs, b.Pairs):
		return "pairs"
	case !a.contributes() || !b.contributes():
		return ""
	case a.inType().dtype != b.inType().dtype:
		return "dtypes"
	case !shapesFit(a, b):
		return "shapes"
	case a.sharesSizes() && !slices.Equal(a.Sizes, b.Sizes):
		return "sizes"
	}
	return ""
}

// messageDisagreement compares the two ends of a message, which were matched by their peers and tag.
func messageDisagreement(a, b *Call) string {
	if a.Kind == Recv {
		a, b = b, a
	}
	switch {
	case a.inType().dtype != b.dstType().dtype:
		return "dtypes"
	case !a.inType().shape.Equal(b.dstType().shape):
		return "shapes"
	}
	return ""
}

// sharesSizes reports whether all members must pass the same sizes. In AllToAllV and the like each member
// splits its own rows, so they may differ.
func (c *Call) sharesSizes() bool {
	return c.Kind == ReduceScatter || c.Kind == AllToAll && c.Dim != c.Concat
}

// shapesFit reports whether the members' shapes are compatible: the joined dim may differ, and Permute
// accepts any shapes.
func shapesFit(a, b *Call) bool {
	free := -1
	switch a.Kind {
	case Permute:
		return true
	case AllGather, Gather, AllToAllV:
		free = a.Dim
	case AllToAll:
		free = a.Concat
	}
	x, y := a.inType().shape, b.inType().shape
	if len(x) != len(y) {
		return false
	}
	for d := range x {
		if d != free && x[d] != y[d] {
			return false
		}
	}
	return true
}
