package kernel

// scanBack goes backward through a recurrence without stored states: they are recomputed chunk by chunk from
// the last, so that scratch memory is a state for each chunk and for each position of one chunk.
type scanBack[T Float] struct {
	// seq is the number of positions, chunk how many are recomputed at once, size the elements of a state.
	seq, chunk, size int
	// starts holds the state before each chunk, states that after each position of a chunk, dstate the gradient
	// of the state.
	starts, states, dstate []T
	mem                    scratch[T]
}

func newScanBack[T Float](seq, chunk, size int) *scanBack[T] {
	chunks, in := ceilDiv(seq, chunk), min(chunk, seq)
	u := &scanBack[T]{seq: seq, chunk: chunk, size: size, mem: newScratch[T]((chunks + 1 + in + 1) * size)}
	u.starts, u.states, u.dstate = u.mem.cut((chunks+1)*size), u.mem.cut(in*size), u.mem.cut(size)
	return u
}

// scanSteps is a recurrence at one position: step advances the state from before it to after it, and gradient
// propagates the gradient of the state, in dstate, from after it to before it.
type scanSteps[T Float] interface {
	step(state []T, t int)
	gradient(dstate []T, t int, before, after []T)
}

// run propagates the gradient of the last state to that of the first one, dfirst.
func (u *scanBack[T]) run(h scanSteps[T], first, dlast, dfirst []T) {
	chunks := ceilDiv(u.seq, u.chunk)
	state := u.starts[chunks*u.size:][:u.size]
	copy(state, first)
	for t := range u.seq {
		if t%u.chunk == 0 {
			copy(u.starts[t/u.chunk*u.size:], state)
		}
		h.step(state, t)
	}
	copy(u.dstate, dlast)
	for c := chunks - 1; c >= 0; c-- {
		u.back(h, c)
	}
	copy(dfirst, u.dstate)
}

// back goes through one chunk.
func (u *scanBack[T]) back(h scanSteps[T], c int) {
	n, lo, hi := u.size, c*u.chunk, min((c+1)*u.chunk, u.seq)
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
		h.gradient(u.dstate, t, before, u.states[(t-lo)*n:][:n])
	}
}
