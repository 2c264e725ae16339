package comm

import (
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// blockLen is the number of elements combined at a time: small enough that partial results stay in the L1
// cache.
const blockLen = 2048

// reduction combines the arrays of members from..to element by element into each output. Its positions are
// the elements of the result.
type reduction struct {
	by       Reduce
	dtype    array.DType
	ins      []array.Array // by member; the zero Array if it is in another process
	from, to int
	at       region // the part of the inputs
	outs     []array.Array
	base     int // the position of the outputs' first element

	given []given
	// partial marks a subtree of a larger tree: a mean is not divided, and 16-bit floats stay float32.
	partial bool
}

// given is a subtree that another process has combined: members from..to, from position base on.
type given struct {
	from, to int
	base     int
	data     []byte
}

// Combine reduces arrays of one type with the same bits as an all-reduce of a group that holds
// them.
func Combine(by Reduce, parts []array.Array) (array.Array, error) {
	first := parts[0]
	for _, x := range parts {
		if !by.Takes(x.DType()) || x.DType() != first.DType() || !x.Shape().Equal(first.Shape()) {
			return array.Array{}, fmt.Errorf("combine: %v of %v%v and %v%v: want one type that it takes",
				by, first.DType(), first.Shape(), x.DType(), x.Shape())
		}
	}
	out := array.New(first.DType(), first.Shape()...)
	r := &reduction{
		by: by, dtype: first.DType(), ins: parts, to: len(parts), outs: []array.Array{out},
		at: region{span: max(out.Len(), 1)},
	}
	r.do(&Scratch{}, 0, out.Len())
	return out, nil
}

// region is a part of an array cut along one dim: its element i is the array's element i/span*stride + off +
// i%span.
type region struct{ off, span, stride int }

// runs calls f for each contiguous run of the region's elements lo to hi.
func (r region) runs(lo, hi int, f func(at, from, n int)) {
	for i := lo; i < hi; {
		in := i % r.span
		n := min(r.span-in, hi-i)
		f(i-lo, i/r.span*r.stride+r.off+in, n)
		i += n
	}
}

// contiguous returns where the region's elements lo to hi begin in the array, if they are contiguous.
func (r region) contiguous(lo, hi int) (from int, ok bool) {
	in := lo % r.span
	return lo/r.span*r.stride + r.off + in, in+hi-lo <= r.span
}

// Scratch is one goroutine's memory for partial results.
type Scratch struct{ mem array.Array }

// slots returns n blocks of elements of type C.
func slots[C any](s *Scratch, n int) []C {
	var zero C
	size := n * blockLen * int(unsafe.Sizeof(zero))
	if !s.mem.IsValid() || s.mem.Len() < size {
		s.mem = array.New(array.U8, size)
	}
	return elementsOf[C](s.mem.Bytes()[:size])
}

// do combines elements lo to hi.
func (r *reduction) do(mem *Scratch, lo, hi int) {
	k := len(r.ins)
	switch r.dtype {
	case array.F64:
		reduceWide(r, mem, lo, hi, floatJoin[float64](r.by), scale[float64](r.by, k))
	case array.F32:
		reduceWide(r, mem, lo, hi, floatJoin[float32](r.by), scale[float32](r.by, k))
	case array.BF16:
		reduceHalf(r, mem, lo, hi, halfFormat{kernel.BF16sToF32, kernel.F32sToBF16})
	case array.F16:
		reduceHalf(r, mem, lo, hi, halfFormat{kernel.F16sToF32, kernel.F32sToF16})
	case array.I64:
		reduceWide(r, mem, lo, hi, intJoin[int64](r.by), nil)
	case array.I32:
		reduceWide(r, mem, lo, hi, intJoin[int32](r.by), nil)
	case array.I16:
		reduceWide(r, mem, lo, hi, intJoin[int16](r.by), nil)
	case array.U8:
		reduceWide(r, mem, lo, hi, intJoin[uint8](r.by), nil)
	case array.Bool: // as bytes, where any and all are max and min
		by := Max
		if r.by == All || r.by == Min {
			by = Min
		}
		reduceWide(r, mem, lo, hi, intJoin[uint8](by), nil)
	}
}

// tree combines contributions in the one order that all reductions have: a balanced binary tree over group
// positions.
type tree[C any] struct {
	// load returns a member's elements of the block: in place, or copied or widened to slot.
	load func(slot []C, member, lo, hi int) []C
	// given returns the elements of a subtree that was combined elsewhere, as load does; nil if it was not.
	given func(slot []C, from, to, lo, hi int) []C
	join  func(dst, x, y []C)
	mem   []C // blocks, one for each level that waits for its right side
}

// treeDepth returns the number of blocks that a tree of k contributions needs.
func treeDepth(k int) int { return bits.Len(uint(k)) + 1 }

// treeMiddle returns the position at which the tree over positions from..to, at least two, is split: the left
// subtree holds the largest power of two below their number, as in kernel.Tree.
func treeMiddle(from, to int) int { return from + 1<<(bits.Len(uint(to-from-1))-1) }

// combine returns elements lo to hi of members from..to, in dst unless they are in memory already. Blocks of
// deeper levels are free to use.
func (t *tree[C]) combine(dst []C, from, to, depth, lo, hi int) []C {
	n := hi - lo
	slot := t.mem[depth*blockLen:][:n]
	if t.given != nil {
		if block := t.given(slot, from, to, lo, hi); block != nil {
			return block
		}
	}
	if to-from == 1 {
		return t.load(slot, from, lo, hi)
	}
	mid := treeMiddle(from, to)
	x := t.combine(slot, from, mid, depth, lo, hi)
	y := t.combine(t.mem[(depth+1)*blockLen:][:n], mid, to, depth+1, lo, hi)
	t.join(dst, x, y)
	return dst
}

// find returns the given subtree of members from..to.
func (r *reduction) find(from, to int) *given {
	for i := range r.given {
		if g := &r.given[i]; g.from == from && g.to == to {
			return g
		}
	}
	return nil
}

// reduceWide combines elements that are computed in their own type. The last join writes to the first output;
// that may be an input's memory, since by then the block's other elements have been read.
func reduceWide[C array.Elem](r *reduction, mem *Scratch, lo, hi int, join func(dst, x, y []C),
	finish func([]C)) {
	ins, outs := elements[C](r.ins), elements[C](r.outs)
	t := tree[C]{join: join, mem: slots[C](mem, treeDepth(len(ins)))}
	t.load = func(slot []C, member, lo, hi int) []C {
		if from, ok := r.at.contiguous(lo, hi); ok {
			return ins[member][from : from+hi-lo]
		}
		r.at.runs(lo, hi, func(at, from, n int) { copy(slot[at:at+n], ins[member][from:from+n]) })
		return slot
	}
	if r.given != nil {
		t.given = func(_ []C, from, to, lo, hi int) []C {
			if g := r.find(from, to); g != nil {
				return elementsOf[C](g.data)[lo-g.base : hi-g.base]
			}
			return nil
		}
	}
	for ; lo < hi; lo += blockLen {
		end := min(hi, lo+blockLen)
		first := outs[0][lo-r.base : end-r.base]
		if block := t.combine(first, r.from, r.to, 0, lo, end); &block[0] != &first[0] {
			copy(first, block)
		}
		if finish != nil && !r.partial {
			finish(first)
		}
		for _, out := range outs[1:] {
			copy(out[lo-r.base:end-r.base], first)
		}
	}
}

// halfFormat converts a 16-bit float format to float32 and back.
type halfFormat struct {
	widen  func(dst []float32, src []uint16)
	narrow func(dst []uint16, src []float32)
}

// reduceHalf combines 16-bit floats in float32 and rounds once.
func reduceHalf(r *reduction, mem *Scratch, lo, hi int, format halfFormat) {
	t := halfTree(r, mem, format)
	finish := scale[float32](r.by, len(r.ins))
	for ; lo < hi; lo += blockLen {
		end := min(hi, lo+blockLen)
		block := t.combine(t.mem[:end-lo], r.from, r.to, 0, lo, end)
		if r.partial {
			copy(elementsOf[float32](r.outs[0].Bytes())[lo-r.base:], block)
			continue
		}
		if finish != nil {
			finish(block)
		}
		first := elementsOf[uint16](r.outs[0].Bytes())[lo-r.base : end-r.base]
		format.narrow(first, block)
		for _, out := range r.outs[1:] {
			copy(elementsOf[uint16](out.Bytes())[lo-r.base:], first)
		}
	}
}

// halfTree returns the tree over 16-bit operands. Terms of several members are float32 already.
func halfTree(r *reduction, mem *Scratch, format halfFormat) tree[float32] {
	ins := elements[uint16](r.ins)
	t := tree[float32]{join: floatJoin[float32](r.by), mem: slots[float32](mem, treeDepth(len(ins)))}
	t.load = func(slot []float32, member, lo, hi int) []float32 {
		r.at.runs(lo, hi, func(at, from, n int) { format.widen(slot[at:at+n], ins[member][from:from+n]) })
		return slot
	}
	if r.given == nil {
		return t
	}
	t.given = func(slot []float32, from, to, lo, hi int) []float32 {
		g := r.find(from, to)
		switch {
		case g == nil:
			return nil
		case to-from > 1: // a copy: the term may be the root, which finish overwrites
			copy(slot, elementsOf[float32](g.data)[lo-g.base:hi-g.base])
		default:
			format.widen(slot, elementsOf[uint16](g.data)[lo-g.base:hi-g.base])
		}
		return slot
	}
	return t
}
