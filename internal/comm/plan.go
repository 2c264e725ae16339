package comm

import (
	"fmt"
	"runtime/debug"

	"github.com/galley-ml/galley/array"
)

// job is work over a range of positions, any part of which can be done by itself.
type job interface {
	do(mem *Scratch, lo, hi int)
}

// Piece is a part of a collective's work: what one goroutine takes at a time. What it computes does not
// depend on who does it or when.
type Piece struct {
	job    job
	lo, hi int
}

// Do does the piece.
func (p Piece) Do(mem *Scratch) { p.job.do(mem, p.lo, p.hi) }

// Plan is what the calls of a complete meeting come to: every member's result, and the work that fills it in.
type Plan struct {
	Results []Result
	Pieces  []Piece
	// Bytes is what the pieces read and write, all in all.
	Bytes int

	m     *Meeting
	calls []*Call
	err   error
}

// NewPlan plans a meeting to which all have come. It is a function of their calls alone; no array is read or
// written before its pieces are done. An error means that a member's destination does not fit; a panic in it
// is a bug of ours, but must not leave the members waiting, so it is an error as well.
func NewPlan(m *Meeting) (p *Plan, err error) {
	p = &Plan{m: m, calls: m.Calls, Results: make([]Result, len(m.Calls))}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("collective: %v: %w", p.calls[0], &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return p, p.build()
}

// build fills in the results and pieces. An error means that a member's destination does not fit.
func (p *Plan) build() error {
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
func (p *Plan) result(slot int, t typ) array.Array {
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
				p.m.Ranks[slot], typeOf(dst), t), slot, other)
		}
		dst = array.New(t.dtype, t.shape...)
	}
	p.Results[slot].Array = dst
	return dst
}

// hasRows reports whether dst has room for an array of type t in its first rows.
func hasRows(dst array.Array, t typ) bool {
	d := typeOf(dst)
	return len(d.shape) == len(t.shape) && d.shape[0] >= t.shape[0] && d.with(0, t.shape[0]).equal(t)
}

// cut adds a job of n positions in pieces of at most grain.
func (p *Plan) cut(j job, n, grain int) {
	for lo := 0; lo < n; lo += grain {
		p.Pieces = append(p.Pieces, Piece{j, lo, min(n, lo+grain)})
	}
}

// moveGrain is the bytes of one piece of a move: large against taking it, small against a core's cache.
const moveGrain = 256 << 10

// move copies a box of the given type from src, where it begins at index from of dim srcDim, to dst, where it
// begins at index to of dim dstDim.
func (p *Plan) move(dst array.Array, dstDim, to int, src array.Array, srcDim, from int, box typ) {
	if n := box.bytes(); n > 0 {
		p.cut(newMove(dst, dstDim, to, src, srcDim, from, box), n, moveGrain)
		p.Bytes += 2 * n
	}
}

// whole copies an array.
func (p *Plan) whole(dst, src array.Array) {
	flat := typ{src.DType(), array.Shape{src.Len()}}
	p.move(dst.Reshape(src.Len()), 0, 0, src.Reshape(src.Len()), 0, 0, flat)
}

// reduceGrain is the elements of one piece of a reduction: a whole number of blocks.
const reduceGrain = 16 * blockLen

func (p *Plan) allReduce() {
	r := p.reduction()
	for slot, c := range p.calls {
		r.outs = append(r.outs, p.result(slot, typeOf(c.In)))
	}
	n := r.outs[0].Len()
	r.at = region{span: max(n, 1)}
	p.cut(r, n, reduceGrain)
	p.Bytes += 2 * len(p.calls) * len(r.outs[0].Bytes())
}

func (p *Plan) reduceScatter() {
	c := p.calls[0]
	t, strides := typeOf(c.In), c.In.Shape().Strides()
	stride := t.shape[c.Dim] * strides[c.Dim]
	off := 0
	for slot, size := range c.Sizes {
		r := p.reduction()
		r.outs = []array.Array{p.result(slot, t.with(c.Dim, size))}
		r.at = region{off: off * strides[c.Dim], span: size * strides[c.Dim], stride: stride}
		p.cut(r, r.outs[0].Len(), reduceGrain)
		p.Bytes += (len(p.calls) + 1) * len(r.outs[0].Bytes())
		off += size
	}
}

// reduction is a job that combines the members' arrays, without its outputs.
func (p *Plan) reduction() *reduction {
	r := &reduction{by: p.calls[0].Reduce}
	for _, c := range p.calls {
		r.ins = append(r.ins, c.In)
	}
	return r
}
