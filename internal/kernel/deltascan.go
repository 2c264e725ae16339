package kernel

import "math"

// DeltaScan is a recurrence along Seq for every batch element and head, with a state of Dim × States numbers:
// h = h·diag(exp(w)) + (h·a)⊗b + v⊗k, y = h·r. R, W, K, A and B are [batch, seq, heads, states], V is [batch,
// seq, heads, dim] and First [batch, heads, dim, states].
type DeltaScan[T Float] struct {
	Batch, Seq, Heads int
	Dim, States       int
	// Chunk is the number of positions that Backward recomputes at once.
	Chunk            int
	R, W, K, V, A, B []T
	First            []T
}

// DeltaScanGrad holds the gradients of a DeltaScan's two results, and the gradients of its operands, which
// Backward writes.
type DeltaScanGrad[T Float] struct {
	DY, DLast                      []T
	DR, DW, DK, DV, DA, DB, DFirst []T
}

func (s *DeltaScan[T]) state() int { return s.Dim * s.States }

// pool returns p, or nil if the work is too little for more than one thread.
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

// deltaHead is one batch element and head, with the decay of the current position.
type deltaHead[T Float] struct {
	*DeltaScan[T]
	b, h  int
	decay []T
}

func (s *DeltaScan[T]) head(task int) deltaHead[T] {
	return deltaHead[T]{s, task / s.Heads, task % s.Heads, make([]T, s.States)}
}

// at returns the index of position t in [batch, seq, heads].
func (h deltaHead[T]) at(t int) int { return (h.b*h.Seq+t)*h.Heads + h.h }

// row returns position t of an operand with States elements a position, value that of one shaped as V.
func (h deltaHead[T]) row(src []T, t int) []T   { return src[h.at(t)*h.States:][:h.States] }
func (h deltaHead[T]) value(src []T, t int) []T { return src[h.at(t)*h.Dim:][:h.Dim] }

// shrink sets the decay factors of the states at position t.
func (h deltaHead[T]) shrink(t int) []T {
	for j, w := range h.row(h.W, t) {
		h.decay[j] = T(math.Exp(float64(w)))
	}
	return h.decay
}

// step advances the state from before position t to after it.
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

// Backward computes the gradients.
func (s *DeltaScan[T]) Backward(p *Pool, g DeltaScanGrad[T]) {
	s.pool(p).Run(s.Batch*s.Heads, func(task int) {
		u := newScanBack[T](s.Seq, s.Chunk, s.state())
		at, end := task*s.state(), (task+1)*s.state()
		u.run(deltaGrad[T]{s.head(task), g}, s.First[at:end], g.DLast[at:end], g.DFirst[at:end])
		u.mem.free()
	})
}

// deltaGrad holds the gradients of one batch element and head.
type deltaGrad[T Float] struct {
	deltaHead[T]
	DeltaScanGrad[T]
}

// gradient propagates the gradient of the state from after position t to before it.
func (h deltaGrad[T]) gradient(dstate []T, t int, before, after []T) {
	r, k, a, b := h.row(h.R, t), h.row(h.K, t), h.row(h.A, t), h.row(h.B, t)
	dr, dw, dk, da, db := h.row(h.DR, t), h.row(h.DW, t), h.row(h.DK, t), h.row(h.DA, t), h.row(h.DB, t)
	for _, d := range [][]T{dr, dw, dk, da, db} {
		clear(d)
	}
	decay, v, dv, dy := h.shrink(t), h.value(h.V, t), h.value(h.DV, t), h.value(h.DY, t)
	for i := range dv {
		at := i * h.States
		d, was, is := dstate[at:at+h.States], before[at:at+h.States], after[at:at+h.States]
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
