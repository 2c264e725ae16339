package comm

import (
	"fmt"
	"runtime/debug"

	"github.com/galley-ml/galley/array"
)

// job is work over a range of positions, any part of which can be done by itself.
type job interface {
	do(mem *scratch, lo, hi int)
}

// piece is a part of a job: what one goroutine takes at a time.
type piece struct {
	job    job
	lo, hi int
}

// plan turns the calls of a complete meeting into results and work.
type plan struct {
	m       *meeting
	calls   []*Call
	results []Result
	pieces  []piece
	bytes   int // read and written, all in all
	err     error
}

func newPlan(m *meeting) *plan {
	return &plan{m: m, calls: m.calls, results: make([]Result, len(m.calls))}
}

// safely is build; a panic in it is a bug of ours, but must not leave the members waiting.
func (p *plan) safely() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("collective: %v: %w", p.calls[0], &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return p.build()
}

// build fills in the results and pieces. An error means that a member's destination does not fit.
func (p *plan) build() error {
	switch kind := p.calls[0].Kind; kind {
	case AllReduce:
		p.allReduce()
	case ReduceScatter:
		p.reduceScatter()
	case AllGather:
		for slot := range p.calls {
			p.gather(slot)
		}
	case Gather:
		p.gather(p.calls[0].Root)
	case AllToAll, AllToAllV:
		for slot := range p.calls {
			p.exchange(slot)
		}
	case Broadcast:
		p.broadcast()
	case Scatter:
		p.scatter()
	case Permute:
		p.permute()
	case Send, Recv:
		p.message()
	}
	return p.err
}

// result makes the result of a slot: in its destination if it has one, which must be of type t.
func (p *plan) result(slot int, t typ) array.Array {
	dst := p.calls[slot].Dst
	switch {
	case !dst.IsValid():
		dst = array.New(t.dtype, t.shape...)
	case p.calls[slot].Kind == AllToAllV && hasRows(dst, t):
		dst = dst.Rows(0, t.shape[0])
	case !typeOf(dst).equal(t):
		other := 0
		if slot == 0 && len(p.calls) > 1 {
			other = 1
		}
		if p.err == nil {
			p.err = p.m.mismatch(fmt.Sprintf("destination of rank %d: got %v, want %v",
				p.m.lane.ranks[slot], typeOf(dst), t), slot, other)
		}
		dst = array.New(t.dtype, t.shape...)
	}
	p.results[slot].Array = dst
	return dst
}

// hasRows reports whether dst has room for an array of type t in its first rows.
func hasRows(dst array.Array, t typ) bool {
	d := typeOf(dst)
	return len(d.shape) == len(t.shape) && d.shape[0] >= t.shape[0] && d.with(0, t.shape[0]).equal(t)
}

// cut adds a job of n positions in pieces of at most grain.
func (p *plan) cut(j job, n, grain int) {
	for lo := 0; lo < n; lo += grain {
		p.pieces = append(p.pieces, piece{j, lo, min(n, lo+grain)})
	}
}

// moveGrain is the bytes of one piece of a move: large against taking it, small against a core's cache.
const moveGrain = 256 << 10

// move copies a box of the given type from src, where it begins at index from of dim srcDim, to dst, where it begins at
// index to of dim dstDim.
func (p *plan) move(dst array.Array, dstDim, to int, src array.Array, srcDim, from int, box typ) {
	if n := box.bytes(); n > 0 {
		p.cut(newMove(dst, dstDim, to, src, srcDim, from, box), n, moveGrain)
		p.bytes += 2 * n
	}
}

// whole copies an array.
func (p *plan) whole(dst, src array.Array) {
	flat := typ{src.DType(), array.Shape{src.Len()}}
	p.move(dst.Reshape(src.Len()), 0, 0, src.Reshape(src.Len()), 0, 0, flat)
}

// reduceGrain is the elements of one piece of a reduction: a whole number of blocks.
const reduceGrain = 16 * blockLen

func (p *plan) allReduce() {
	r := p.reduction()
	for slot, c := range p.calls {
		r.outs = append(r.outs, p.result(slot, typeOf(c.In)))
	}
	n := r.outs[0].Len()
	r.at = region{span: max(n, 1)}
	p.cut(r, n, reduceGrain)
	p.bytes += 2 * len(p.calls) * len(r.outs[0].Bytes())
}

func (p *plan) reduceScatter() {
	c := p.calls[0]
	t, strides := typeOf(c.In), c.In.Shape().Strides()
	stride := t.shape[c.Dim] * strides[c.Dim]
	off := 0
	for slot, size := range c.Sizes {
		r := p.reduction()
		r.outs = []array.Array{p.result(slot, t.with(c.Dim, size))}
		r.at = region{off: off * strides[c.Dim], span: size * strides[c.Dim], stride: stride}
		p.cut(r, r.outs[0].Len(), reduceGrain)
		p.bytes += (len(p.calls) + 1) * len(r.outs[0].Bytes())
		off += size
	}
}

// reduction is a job that combines the members' arrays, without its outputs.
func (p *plan) reduction() *reduction {
	r := &reduction{by: p.calls[0].Reduce}
	for _, c := range p.calls {
		r.ins = append(r.ins, c.In)
	}
	return r
}
