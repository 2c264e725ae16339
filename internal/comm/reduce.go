package comm

import (
	"fmt"
	"math/bits"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// blockLen is the elements that are combined at a time: few enough that partial results stay in the first
// cache.
const blockLen = 2048

// reduction combines the members' arrays element by element into each output. Its positions are the outputs'
// elements.
type reduction struct {
	by   Reduce
	ins  []array.Array
	at   region // where in the inputs
	outs []array.Array
}

// Combine is arrays of one type combined as an all-reduce of a group that holds them does it, to the bit.
func Combine(by Reduce, parts []array.Array) (array.Array, error) {
	first := parts[0]
	for _, x := range parts {
		if !by.Takes(x.DType()) || x.DType() != first.DType() || !x.Shape().Equal(first.Shape()) {
			return array.Array{}, fmt.Errorf("combine: %v of %v%v and %v%v: want one type that it takes",
				by, first.DType(), first.Shape(), x.DType(), x.Shape())
		}
	}
	out := array.New(first.DType(), first.Shape()...)
	r := &reduction{by: by, ins: parts, outs: []array.Array{out}, at: region{span: max(out.Len(), 1)}}
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

// contiguous is where the region's elements lo to hi begin in the array, if they are in one run.
func (r region) contiguous(lo, hi int) (from int, ok bool) {
	in := lo % r.span
	return lo/r.span*r.stride + r.off + in, in+hi-lo <= r.span
}

// Scratch is one goroutine's memory for partial results.
type Scratch struct{ mem array.Array }

// slots is n blocks of elements of type C.
func slots[C array.Elem](s *Scratch, dtype array.DType, n int) []C {
	size := n * blockLen * dtype.Size()
	if !s.mem.IsValid() || s.mem.Len() < size {
		s.mem = array.New(array.U8, size)
	}
	return array.Data[C](array.View(dtype, array.Shape{n * blockLen}, s.mem.Bytes()[:size]))
}

// do combines elements lo to hi.
func (r *reduction) do(mem *Scratch, lo, hi int) {
	switch dtype := r.ins[0].DType(); dtype {
	case array.F64:
		reduceWide(r, mem, lo, hi, floatJoin[float64](r.by), r.mean64())
	case array.F32:
		reduceWide(r, mem, lo, hi, floatJoin[float32](r.by), scale[float32](r.by, len(r.ins)))
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
	case array.Bool:
		r.bytes().do(mem, lo, hi)
	}
}

func (r *reduction) mean64() func([]float64) { return scale[float64](r.by, len(r.ins)) }

// bytes is the same reduction of Bools as bytes, where any and all are max and min.
func (r *reduction) bytes() *reduction {
	b := &reduction{by: Max, at: r.at}
	if r.by == All || r.by == Min {
		b.by = Min
	}
	for _, a := range r.ins {
		b.ins = append(b.ins, array.View(array.U8, a.Shape(), a.Bytes()))
	}
	for _, a := range r.outs {
		b.outs = append(b.outs, array.View(array.U8, a.Shape(), a.Bytes()))
	}
	return b
}

// tree combines contributions in the one order that all reductions have: a balanced binary tree over group
// positions.
type tree[C any] struct {
	// load is a member's elements of the block: where they lie, or copied or widened to slot.
	load func(slot []C, member, lo, hi int) []C
	join func(dst, x, y []C)
	mem  []C // blocks, one for each level that waits for its right side
}

// treeDepth is how many blocks a tree of k contributions needs.
func treeDepth(k int) int { return bits.Len(uint(k)) + 1 }

// combine is the elements lo to hi of members from to to, in dst unless there is one member only. Memory of
// deeper levels is free.
func (t *tree[C]) combine(dst []C, from, to, depth, lo, hi int) []C {
	n := hi - lo
	slot := t.mem[depth*blockLen:][:n]
	if to-from == 1 {
		return t.load(slot, from, lo, hi)
	}
	// The left subtree holds the largest power of two below the number of members, as in kernel.Tree.
	mid := from + 1<<(bits.Len(uint(to-from-1))-1)
	x := t.combine(slot, from, mid, depth, lo, hi)
	y := t.combine(t.mem[(depth+1)*blockLen:][:n], mid, to, depth+1, lo, hi)
	t.join(dst, x, y)
	return dst
}

// reduceWide combines elements that are computed in their own type. The last join writes to the first output;
// that may be an input's memory, since by then the block's other elements have been read.
func reduceWide[C array.Elem](r *reduction, mem *Scratch, lo, hi int, join func(dst, x, y []C),
	finish func([]C)) {
	ins, outs := dataOf[C](r.ins), dataOf[C](r.outs)
	t := tree[C]{join: join, mem: slots[C](mem, r.ins[0].DType(), treeDepth(len(ins)))}
	t.load = func(slot []C, member, lo, hi int) []C {
		if from, ok := r.at.contiguous(lo, hi); ok {
			return ins[member][from : from+hi-lo]
		}
		r.at.runs(lo, hi, func(at, from, n int) { copy(slot[at:at+n], ins[member][from:from+n]) })
		return slot
	}
	for ; lo < hi; lo += blockLen {
		end := min(hi, lo+blockLen)
		first := outs[0][lo:end]
		block := t.combine(first, 0, len(ins), 0, lo, end)
		if len(ins) == 1 {
			copy(first, block)
		}
		if finish != nil {
			finish(first)
		}
		for _, out := range outs[1:] {
			copy(out[lo:end], first)
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
	ins, outs := rawOf(r.ins), rawOf(r.outs)
	t := tree[float32]{join: floatJoin[float32](r.by), mem: slots[float32](mem, array.F32, treeDepth(len(ins)))}
	t.load = func(slot []float32, member, lo, hi int) []float32 {
		r.at.runs(lo, hi, func(at, from, n int) { format.widen(slot[at:at+n], ins[member][from:from+n]) })
		return slot
	}
	finish := scale[float32](r.by, len(ins))
	for ; lo < hi; lo += blockLen {
		end := min(hi, lo+blockLen)
		block := t.combine(t.mem[:end-lo], 0, len(ins), 0, lo, end)
		if finish != nil {
			finish(block)
		}
		format.narrow(outs[0][lo:end], block)
		for _, out := range outs[1:] {
			copy(out[lo:end], outs[0][lo:end])
		}
	}
}
