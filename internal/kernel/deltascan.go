package kernel

import "math"

// DeltaScan is a recurrence along Seq for every batch element and head, with a state of Dim × States numbers:
// h = h·diag(exp(w)) + (h·a)⊗b + v⊗k, y = h·r. R, W, K, A and B are [batch, seq, heads, states], V is [batch,
// seq, heads, dim] and First [batch, heads, dim, states].
type DeltaScan[T Float] struct {
	Batch, Seq, Heads int
	Dim, States       int
	// Chunk is how many positions Backward computes again at once.
	Chunk            int
	R, W, K, V, A, B []T
	First            []T
}

// DeltaScanGrad is the gradient of a DeltaScan: of what reaches its two results, and the gradients of its
// operands, which Backward writes.
type DeltaScanGrad[T Float] struct {
	DY, DLast                      []T
	DR, DW, DK, DV, DA, DB, DFirst []T
}

func (s *DeltaScan[T]) state() int { return s.Dim * s.States }

// pool is nil where the whole is not worth more than one thread.
func (s *DeltaScan[T]) pool(p *Pool) *Pool {
	if s.Batch*s.Seq*s.Heads*s.state() < attentionWork {
		return nil
	}
	return p
}

// Forward computes y, shaped as V, and the last state, shaped as First. Heads are independent, so nothing
// depends on the number of threads.
func (s *DeltaScan[T]) Forward(p *Pool, y, last []T) {
	s.pool(p).Run(s.Batch*s.Heads, func(task int) {
		h := s.head(task)
		state := last[task*s.state():][:s.state()]
		copy(state, s.First[task*s.state():])
		for t := range s.Seq {
			h.step(state, t)
			r, to := h.row(s.R, t), h.value(y, t)
			for i := range to {
				to[i] = Dot(state[i*s.States:(i+1)*s.States], r)
			}
		}
	})
}

// deltaHead is one batch element and head, with the decay of the position at hand.
type deltaHead[T Float] struct {
	*DeltaScan[T]
	b, h  int
	decay []T
}

func (s *DeltaScan[T]) head(task int) deltaHead[T] {
	return deltaHead[T]{s, task / s.Heads, task % s.Heads, make([]T, s.States)}
}

// at is the place of position t in [batch, seq, heads].
func (h deltaHead[T]) at(t int) int { return (h.b*h.Seq+t)*h.Heads + h.h }

// row is position t of what has a number for each state, value that of V and what is shaped as it.
func (h deltaHead[T]) row(src []T, t int) []T   { return src[h.at(t)*h.States:][:h.States] }
func (h deltaHead[T]) value(src []T, t int) []T { return src[h.at(t)*h.Dim:][:h.Dim] }

// shrink sets by how much the states shrink at position t.
func (h deltaHead[T]) shrink(t int) []T {
	for j, w := range h.row(h.W, t) {
		h.decay[j] = T(math.Exp(float64(w)))
	}
	return h.decay
}

// step makes the state after position t of the one before.
func (h deltaHead[T]) step(state []T, t int) {
	d, k, a, b := h.shrink(t), h.row(h.K, t), h.row(h.A, t), h.row(h.B, t)
	for i, v := range h.value(h.V, t) {
		row := state[i*h.States : (i+1)*h.States]
		u := Dot(row, a)
		for j, x := range row {
			row[j] = d[j]*x + u*b[j] + v*k[j]
		}
	}
}

// Backward computes the gradients. The states that it needs are computed again, chunk by chunk from the last,
// so scratch memory is a state for each chunk and each position of one.
func (s *DeltaScan[T]) Backward(p *Pool, g DeltaScanGrad[T]) {
	s.pool(p).Run(s.Batch*s.Heads, func(task int) {
		u := s.newBack(g)
		u.run(s.head(task), task*s.state())
		u.mem.free()
	})
}

// deltaBack is the scratch of one head.
type deltaBack[T Float] struct {
	DeltaScanGrad[T]
	// starts is the state before each chunk, states that after each position of one, dstate the gradient of
	// the state.
	starts, states, dstate []T
	mem                    scratch[T]
}

func (s *DeltaScan[T]) newBack(g DeltaScanGrad[T]) *deltaBack[T] {
	n, chunks, in := s.state(), ceilDiv(s.Seq, s.Chunk), min(s.Chunk, s.Seq)
	u := &deltaBack[T]{DeltaScanGrad: g, mem: newScratch[T]((chunks + 1 + in + 1) * n)}
	u.starts, u.states, u.dstate = u.mem.cut((chunks+1)*n), u.mem.cut(in*n), u.mem.cut(n)
	return u
}

func (u *deltaBack[T]) run(h deltaHead[T], at int) {
	n, chunks := h.state(), ceilDiv(h.Seq, h.Chunk)
	state := u.starts[chunks*n:][:n]
	copy(state, h.First[at:at+n])
	for t := range h.Seq {
		if t%h.Chunk == 0 {
			copy(u.starts[t/h.Chunk*n:], state)
		}
		h.step(state, t)
	}
	copy(u.dstate, u.DLast[at:at+n])
	for c := chunks - 1; c >= 0; c-- {
		u.chunk(h, c)
	}
	copy(u.DFirst[at:at+n], u.dstate)
}

// chunk goes back through one chunk.
func (u *deltaBack[T]) chunk(h deltaHead[T], c int) {
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
func (u *deltaBack[T]) position(h deltaHead[T], t int, before, after []T) {
	r, k, a, b := h.row(h.R, t), h.row(h.K, t), h.row(h.A, t), h.row(h.B, t)
	dr, dw, dk, da, db := h.row(u.DR, t), h.row(u.DW, t), h.row(u.DK, t), h.row(u.DA, t), h.row(u.DB, t)
	for _, d := range [][]T{dr, dw, dk, da, db} {
		clear(d)
	}
	decay, v, dv, dy := h.shrink(t), h.value(h.V, t), h.value(u.DV, t), h.value(u.DY, t)
	for i := range dv {
		at := i * h.States
		d, was, is := u.dstate[at:at+h.States], before[at:at+h.States], after[at:at+h.States]
		for j := range d {
			d[j] += dy[i] * r[j]
			dr[j] += dy[i] * is[j]
		}
		removed, dremoved := Dot(was, a), Dot(d, b)
		dv[i] = Dot(d, k)
		for j, g := range d {
			dk[j] += v[i] * g
			db[j] += removed * g
			da[j] += dremoved * was[j]
			dw[j] += g * was[j] * decay[j]
			d[j] = g*decay[j] + dremoved*a[j]
		}
	}
}
