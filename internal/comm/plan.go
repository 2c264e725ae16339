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

// Piece is a part of a collective's work: what one goroutine does at a time. Its result does not depend on
// which goroutine does it or when.
type Piece struct {
	job    job
	lo, hi int
}

// Do does the piece.
func (p Piece) Do(mem *Scratch) { p.job.do(mem, p.lo, p.hi) }

// Plan holds every member's result of a complete rendezvous, and the work that computes it.
type Plan struct {
	Results []Result
	Pieces  []Piece
	// Bytes is the total number of bytes that the pieces read and write.
	Bytes int
	// Outgoing and Incoming are the boxes sent to and received from members of other processes. Two processes
	// list the boxes between them in the same order.
	Outgoing, Incoming []Parcel
	// Reductions are the reductions whose members are in several processes.
	Reductions []*Reduction

	m     *Rendezvous
	calls []*Call
	err   error
}

// NewPlan plans a rendezvous at which all members have arrived. It depends on their calls alone; no array is
// read or written before the pieces are done. For members in other processes whose operands are not here, the
// plan lists what has to be sent. It returns an error if a member's destination does not fit. A panic in it
// is a bug of Galley; it is returned as an error, so that the members do not wait forever.
func NewPlan(m *Rendezvous) (p *Plan, err error) {
	p = &Plan{m: m, calls: m.Calls, Results: make([]Result, len(m.Calls))}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("collective: %v: %w", p.calls[0], &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return p, p.build()
}

// build fills in the results and pieces. It returns an error if a member's destination does not fit.
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

// result returns the memory for the result of a slot: its destination if given, which must have type t, or
// new memory. For a member in another process it returns the zero Array.
func (p *Plan) result(slot int, t typ) array.Array {
	dst, has, here := p.calls[slot].Dst, p.calls[slot].dstType(), p.m.isLocal(slot)
	switch {
	case !has.isValid() && here:
		dst = array.New(t.dtype, t.shape...)
	case !has.isValid():
	case p.calls[slot].Kind == AllToAllV && hasRows(has, t):
		if here {
			dst = dst.Rows(0, t.shape[0])
		}
	case !has.equal(t):
		other := 0
		if slot == 0 && len(p.calls) > 1 {
			other = 1
		}
		if p.err == nil {
			p.err = p.m.mismatch(fmt.Sprintf("destination of rank %d: got %v, want %v",
				p.m.Ranks[slot], has, t), slot, other)
		}
		dst = array.Array{}
	}
	p.Results[slot].Array = dst
	return dst
}

// hasRows reports whether an array of type t fits into the first rows of one of type d.
func hasRows(d, t typ) bool {
	return len(d.shape) == len(t.shape) && d.shape[0] >= t.shape[0] && d.with(0, t.shape[0]).equal(t)
}

// cut adds a job of n positions, split into pieces of at most grain.
func (p *Plan) cut(j job, n, grain int) {
	for lo := 0; lo < n; lo += grain {
		p.Pieces = append(p.Pieces, Piece{j, lo, min(n, lo+grain)})
	}
}

// moveGrain is the bytes of one piece of a move: large compared with the overhead, small for a core's cache.
const moveGrain = 256 << 10

// place is where a box begins in a member's array: an index along a dim.
type place struct {
	slot  int
	array array.Array // the zero Array if it is in another process
	dim   int
	at    int
}

// move plans the copy of a box between two members' arrays, or a parcel if one is in another process.
func (p *Plan) move(dst, src place, box typ) {
	n := box.bytes()
	switch toHere, fromHere := p.m.isLocal(dst.slot), src.array.IsValid(); {
	case n == 0 || p.err != nil || !toHere && !p.m.isLocal(src.slot):
	case toHere && fromHere:
		p.cut(newMove(dst.array, dst.dim, dst.at, src.array, src.dim, src.at, box), n, moveGrain)
		p.Bytes += 2 * n
	case toHere:
		p.Incoming = append(p.Incoming, Parcel{src: src, dst: dst, box: box, Source: src.slot, Target: dst.slot})
	case !p.m.Shared:
		p.Outgoing = append(p.Outgoing, Parcel{src: src, dst: dst, box: box, Source: src.slot, Target: dst.slot})
	}
}

// whole plans the copy of a whole array of type t.
func (p *Plan) whole(to int, dst array.Array, from int, t typ) {
	n := t.shape.Len()
	flat := func(slot int, a array.Array) place {
		if a.IsValid() {
			a = a.Reshape(n)
		}
		return place{slot: slot, array: a}
	}
	p.move(flat(to, dst), flat(from, p.calls[from].In), typ{t.dtype, array.Shape{n}})
}

// reduceGrain is the elements of one piece of a reduction: a whole number of blocks.
const reduceGrain = 16 * blockLen

func (p *Plan) allReduce() {
	r := p.reduction()
	for slot, c := range p.calls {
		if out := p.result(slot, c.inType()); out.IsValid() {
			r.outs = append(r.outs, out)
		}
	}
	n := p.calls[0].inType().shape.Len()
	r.at = region{span: max(n, 1)}
	p.reduce(r, n, -1)
}

func (p *Plan) reduceScatter() {
	c := p.calls[0]
	t, strides := c.inType(), c.inType().shape.Strides()
	stride := t.shape[c.Dim] * strides[c.Dim]
	off := 0
	for slot, size := range c.Sizes {
		r := p.reduction()
		part := t.with(c.Dim, size)
		if out := p.result(slot, part); out.IsValid() {
			r.outs = []array.Array{out}
		}
		r.at = region{off: off * strides[c.Dim], span: size * strides[c.Dim], stride: stride}
		p.reduce(r, part.shape.Len(), slot)
		off += size
	}
}

// reduction returns a job that combines the members' arrays, without its outputs.
func (p *Plan) reduction() *reduction {
	r := &reduction{by: p.calls[0].Reduce, dtype: p.calls[0].inType().dtype, to: len(p.calls)}
	for _, c := range p.calls {
		r.ins = append(r.ins, c.In)
	}
	return r
}

// reduce plans a reduction of n elements, whose result goes to the member of a slot, or to all members if
// slot is -1.
func (p *Plan) reduce(r *reduction, n, slot int) {
	if p.err != nil || n == 0 {
		return
	}
	for _, in := range r.ins {
		if !in.IsValid() {
			p.Reductions = append(p.Reductions, &Reduction{job: r, Len: n, Slot: slot})
			return
		}
	}
	if len(r.outs) > 0 {
		p.cut(r, n, reduceGrain)
		p.Bytes += (len(r.ins) + len(r.outs)) * n * r.dtype.Size()
	}
}
