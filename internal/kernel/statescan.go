package kernel

import "math"

// StateScan is a recurrence along Seq for every batch element and head, with a
// state of Dim × States numbers: h = exp(a)·h + x⊗b, y = h·c. X is [batch, seq,
// heads, dim], A [batch, seq, heads], B and C [batch, seq, groups, states] and
// First [batch, heads, dim, states]; head h reads group h/(Heads/Groups).
type StateScan[T Float] struct {
	Batch, Seq, Heads, Groups int
	Dim, States               int
	// Chunk is how many positions Backward computes again at once.
	Chunk      int
	X, A, B, C []T
	First      []T
}

// StateScanGrad is the gradient of a StateScan: of what reaches its two
// results, and the gradients of its operands, which Backward writes.
type StateScanGrad[T Float] struct {
	DY, DLast              []T
	DX, DA, DB, DC, DFirst []T
}

func (s *StateScan[T]) group() int { return s.Heads / s.Groups }
func (s *StateScan[T]) state() int { return s.Dim * s.States }

// small reports whether the whole is not worth more than one thread.
func (s *StateScan[T]) small() bool { return s.Batch*s.Seq*s.Heads*s.state() < attentionWork }

// Forward computes y, shaped as X, and the last state, shaped as First. Heads
// are independent, so nothing depends on the number of threads.
func (s *StateScan[T]) Forward(p *Pool, y, last []T) {
	if s.Batch*s.Heads*s.Groups == 0 {
		return
	}
	if s.small() {
		p = nil
	}
	p.Run(s.Batch*s.Heads, func(task int) {
		h := s.head(task/s.Heads, task%s.Heads)
		state := last[task*s.state():][:s.state()]
		copy(state, s.First[task*s.state():])
		for t := range s.Seq {
			h.step(state, t)
			c := h.row(s.C, t)
			for i := range s.Dim {
				y[h.at(t)*s.Dim+i] = Dot(state[i*s.States:(i+1)*s.States], c)
			}
		}
	})
}

// scanHead is one batch element and head.
type scanHead[T Float] struct {
	*StateScan[T]
	b, h int
}

func (s *StateScan[T]) head(b, h int) scanHead[T] { return scanHead[T]{s, b, h} }

// at is the place of position t in [batch, seq, heads].
func (h scanHead[T]) at(t int) int { return (h.b*h.Seq+t)*h.Heads + h.h }

// row is position t of B, C or their gradients.
func (h scanHead[T]) row(src []T, t int) []T {
	return src[((h.b*h.Seq+t)*h.Groups+h.h/h.group())*h.States:][:h.States]
}

// x is position t of X or what is shaped as it.
func (h scanHead[T]) x(src []T, t int) []T { return src[h.at(t)*h.Dim:][:h.Dim] }

// decay is by how much the state shrinks at position t.
func (h scanHead[T]) decay(t int) T { return T(math.Exp(float64(h.A[h.at(t)]))) }

// step makes the state after position t of the one before.
func (h scanHead[T]) step(state []T, t int) {
	d, b := h.decay(t), h.row(h.B, t)
	for i, x := range h.x(h.X, t) {
		row := state[i*h.States : (i+1)*h.States]
		for j, v := range row {
			row[j] = d*v + x*b[j]
		}
	}
}

// Backward computes the gradients. The states that it needs are computed again,
// chunk by chunk from the last, so scratch memory is a state for each chunk and
// each position of one. Heads of a group are added up in order.
func (s *StateScan[T]) Backward(p *Pool, g StateScanGrad[T]) {
	clear(g.DB)
	clear(g.DC)
	if s.Batch*s.Heads*s.Groups == 0 {
		return
	}
	if s.small() {
		p = nil
	}
	p.Run(s.Batch*s.Groups, func(task int) {
		u := s.newBack(g)
		for r := range s.group() {
			u.run(s.head(task/s.Groups, task%s.Groups*s.group()+r))
		}
		u.mem.free()
	})
}

// scanBack is the scratch of one group.
type scanBack[T Float] struct {
	StateScanGrad[T]
	// starts is the state before each chunk, states that after each position
	// of one, dstate the gradient of the state.
	starts, states, dstate []T
	mem                    scratch[T]
}

func (s *StateScan[T]) newBack(g StateScanGrad[T]) *scanBack[T] {
	n, chunks := s.state(), ceilDiv(s.Seq, s.Chunk)
	u := &scanBack[T]{StateScanGrad: g, mem: newScratch[T]((chunks + 1 + min(s.Chunk, s.Seq) + 1) * n)}
	u.starts, u.states, u.dstate = u.mem.cut((chunks+1)*n), u.mem.cut(min(s.Chunk, s.Seq)*n), u.mem.cut(n)
	return u
}

func (u *scanBack[T]) run(h scanHead[T]) {
	n, at := h.state(), (h.b*h.Heads+h.h)*h.state()
	chunks := ceilDiv(h.Seq, h.Chunk)
	state := u.starts[chunks*n:]
	copy(state, h.First[at:at+n])
	for t := range h.Seq {
		if t%h.Chunk == 0 {
			copy(u.starts[t/h.Chunk*n:], state[:n])
		}
		h.step(state[:n], t)
	}
	copy(u.dstate, u.DLast[at:at+n])
	for c := chunks - 1; c >= 0; c-- {
		u.chunk(h, c)
	}
	copy(u.DFirst[at:at+n], u.dstate)
}

// chunk goes back through one chunk.
func (u *scanBack[T]) chunk(h scanHead[T], c int) {
	n, lo, hi := h.state(), c*h.Chunk, min((c+1)*h.Chunk, h.Seq)
	before := u.starts[c*n:][:n]
	for t := lo; t < hi; t++ {
		after := u.states[(t-lo)*n:][:n]
		copy(after, before)
		h.step(after, t)
		before = after
	}
	for t := hi - 1; t >= lo; t-- {
		before = u.starts[c*n:][:n]
		if t > lo {
			before = u.states[(t-1-lo)*n:][:n]
		}
		u.position(h, t, before, u.states[(t-lo)*n:][:n])
	}
}

// position takes the gradient of the state from after position t to before it.
func (u *scanBack[T]) position(h scanHead[T], t int, before, after []T) {
	b, c, db, dc := h.row(h.B, t), h.row(h.C, t), h.row(u.DB, t), h.row(u.DC, t)
	x, dx, dy := h.x(h.X, t), h.x(u.DX, t), h.x(u.DY, t)
	decay, da := h.decay(t), T(0)
	for i := range dx {
		at := i * h.States
		d := u.dstate[at : at+h.States]
		sum, slope := T(0), T(0)
		for j := range d {
			v := d[j] + dy[i]*c[j]
			dc[j] += dy[i] * after[at+j]
			db[j] += x[i] * v
			sum += v * b[j]
			slope += v * before[at+j]
			d[j] = v * decay
		}
		dx[i] = sum
		da += slope
	}
	u.DA[h.at(t)] = da * decay
}
