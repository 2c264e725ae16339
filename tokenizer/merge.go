package tokenizer

// pair is two neighbouring symbols.
type pair struct{ left, right int32 }

// merge is the token that a pair becomes, and its rank; the lowest rank merges first.
type merge struct{ rank, id int32 }

// merger merges the symbols of one word. They are a linked list in slices, and the pairs that may merge are
// in a heap, so that a word of n bytes takes n·log n steps, however long it is. It is reused between words to
// save allocations.
type merger struct {
	ids        []int32 // -1 if a symbol was merged into the one before it
	sizes      []int32 // bytes of each symbol
	prev, next []int32 // positions; -1 at the ends
	queue      mergeQueue
}

// reset removes the symbols of the last word; add appends those of the next.
func (m *merger) reset() { m.ids, m.sizes = m.ids[:0], m.sizes[:0] }

func (m *merger) add(id, size int32) {
	m.ids, m.sizes = append(m.ids, id), append(m.sizes, size)
}

// merge merges the symbols and appends the remaining ones to out.
func (m *merger) merge(merges map[pair]merge, out []token) []token {
	n := len(m.ids)
	m.prev, m.next, m.queue = m.prev[:0], m.next[:0], m.queue[:0]
	for i := range n {
		m.prev = append(m.prev, int32(i-1))
		m.next = append(m.next, int32(i+1))
	}
	if n > 0 {
		m.next[n-1] = -1
	}
	for i := range n {
		m.offer(merges, int32(i))
	}
	for len(m.queue) > 0 {
		rank, at := m.queue.pop()
		m.apply(merges, rank, at)
	}
	at := int32(0)
	for i, id := range m.ids {
		if id >= 0 {
			out = append(out, token{id, at, at + m.sizes[i]})
			at += m.sizes[i]
		}
	}
	return out
}

// offer queues the pair that begins at position at, if it merges.
func (m *merger) offer(merges map[pair]merge, at int32) {
	if at < 0 || m.next[at] < 0 {
		return
	}
	if to, ok := merges[pair{m.ids[at], m.ids[m.next[at]]}]; ok {
		m.queue.push(to.rank, at)
	}
}

// apply merges the pair at position at, unless it has changed since it was queued.
func (m *merger) apply(merges map[pair]merge, rank, at int32) {
	right := m.next[at]
	if m.ids[at] < 0 || right < 0 {
		return
	}
	to, ok := merges[pair{m.ids[at], m.ids[right]}]
	if !ok || to.rank != rank {
		return
	}
	m.ids[at], m.ids[right] = to.id, -1
	m.sizes[at] += m.sizes[right]
	m.next[at] = m.next[right]
	if after := m.next[at]; after >= 0 {
		m.prev[after] = at
	}
	m.offer(merges, m.prev[at])
	m.offer(merges, at)
}

// mergeQueue is a heap of ranks and positions, each pair packed into one number, the lowest on top.
// container/heap would allocate for each.
type mergeQueue []uint64

func (h *mergeQueue) push(rank, at int32) {
	q := append(*h, uint64(rank)<<32|uint64(at))
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if q[parent] <= q[i] {
			break
		}
		q[parent], q[i] = q[i], q[parent]
		i = parent
	}
	*h = q
}

func (h *mergeQueue) pop() (rank, at int32) {
	q := *h
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && q[child+1] < q[child] {
			child++
		}
		if child >= last || q[i] <= q[child] {
			break
		}
		q[child], q[i] = q[i], q[child]
		i = child
	}
	*h = q
	return int32(top >> 32), int32(uint32(top))
}
