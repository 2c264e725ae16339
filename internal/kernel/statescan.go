package kernel

import "math"

// StateScan is a recurrence along Seq for every batch element and head, with a
// state of Dim × States numbers: h = exp(a)·h + x⊗b, y = h·c. X is [batch, seq,
// heads, dim], A [batch, seq, heads], B and C [batch, seq, groups, states] and
// First [batch, heads, dim, states]; head h reads group h/(Heads/Groups).
type StateScan[T Float] struct {
	Batch, Seq, Heads, Groups int
	Dim, States               int
	// Chunk is the number of positions that Backward recomputes at once.
	Chunk      int
	X, A, B, C []T
	First      []T
}

// StateScanGrad holds the gradients of a StateScan's two results, and the gradients of its operands, which
// Backward writes.
type StateScanGrad[T Float] struct {
	DY, DLast              []T
	DX, DA, DB, DC, DFirst []T
}

func (s *StateScan[T]) group() int { return s.Heads / s.Groups }
func (s *StateScan[T]) state() int { return s.Dim * s.States }

// small reports whether the work is too little for more than one thread.
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

// at returns the index of position t in [batch, seq, heads].
func (h scanHead[T]) at(t int) int { return (h.b*h.Seq+t)*h.Heads + h.h }

// row returns position t of B, C or their gradients.
func (h scanHead[T]) row(src []T, t int) []T {
	return src[((h.b*h.Seq+t)*h.Groups+h.h/h.group())*h.States:][:h.States]
}

// x returns position t of X or an operand of its shape.
func (h scanHead[T]) x(src []T, t int) []T { return src[h.at(t)*h.Dim:][:h.Dim] }

// decay returns the factor of the state at position t.
func (h scanHead[T]) decay(t int) T { return T(math.Exp(float64(h.A[h.at(t)]))) }

// step advances the state from before position t to after it.
func (h scanHead[T]) step(state []T, t int) {
	d, b := h.decay(t), h.row(h.B, t)
	for i, x := range h.x(h.X, t) {
		row := state[i*h.States : (i+1)*h.States]
		for j, v := range row {
			row[j] = d*v + x*b[j]
		}
	}
}

// Backward computes the gradients. Heads of a group are added up in order.
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
		u := newScanBack[T](s.Seq, s.Chunk, s.state())
		for r := range s.group() {
			h := s.head(task/s.Groups, task%s.Groups*s.group()+r)
			at := (h.b*h.Heads + h.h) * s.state()
			end := at + s.state()
			u.run(scanGrad[T]{h, g}, s.First[at:end], g.DLast[at:end], g.DFirst[at:end])
		}
		u.mem.free()
	})
}

// scanGrad holds the gradients of one batch element and head.
type scanGrad[T Float] struct {
	scanHead[T]
	StateScanGrad[T]
}

// gradient propagates the gradient of the state from after position t to before it.
func (h scanGrad[T]) gradient(dstate []T, t int, before, after []T) {
	b, c, db, dc := h.row(h.B, t), h.row(h.C, t), h.row(h.DB, t), h.row(h.DC, t)
	x, dx, dy := h.x(h.X, t), h.x(h.DX, t), h.x(h.DY, t)
	decay, da := h.decay(t), T(0)
	for i := range dx {
		at := i * h.States
		d := dstate[at : at+h.States]
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
	h.DA[h.at(t)] = da * decay
}
