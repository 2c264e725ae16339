package sample

import "math"

// candidate is a token that may be drawn.
type candidate struct {
	id     int
	logit  float32
	weight float64
}

// before reports whether a comes before b: the likelier first, of equals the one with the lower number.
func (a candidate) before(b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.id < b.id
}

// draw takes a token at random from the likeliest ones.
func (s *Sampler) draw(logits []float32, top float32) int {
	c := s.config
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	floor := float32(math.Inf(-1))
	if c.MinP > 0 {
		floor = top + float32(c.Temperature*math.Log(c.MinP))
	}
	weigh := func(x candidate) float64 { return math.Exp(float64(x.logit-top) / c.Temperature) }
	var list []candidate
	cut := c.TopP > 0 && c.TopP < 1
	switch {
	case c.TopK > 0 && c.TopK < len(logits):
		list = selected(buf, logits, c.TopK, floor)
	default:
		list = all(buf, logits, floor)
	}
	total := 0.0
	for i := range list {
		list[i].weight = weigh(list[i])
		total += list[i].weight
	}
	if cut {
		list, total = nucleus(list, c.TopP*total, c.TopK > 0 && c.TopK < len(logits))
	}
	at := s.draws.Float64() * total
	for _, x := range list {
		if at -= x.weight; at < 0 {
			return x.id
		}
	}
	for i := len(list) - 1; i > 0; i-- { // rounding left something: the last that can be drawn
		if list[i].weight > 0 {
			return list[i].id
		}
	}
	return list[0].id
}

// all returns every token that is not below floor.
func all(buf *buffer, logits []float32, floor float32) []candidate {
	list := buf.heap[:0]
	for i, x := range logits {
		if x >= floor && !math.IsInf(float64(x), -1) {
			list = append(list, candidate{id: i, logit: x})
		}
	}
	buf.heap = list
	return list
}

// selected returns the likeliest k tokens in order, found by a heap of k with the least likely on top.
func selected(buf *buffer, logits []float32, k int, floor float32) []candidate {
	heap := buf.heap[:0]
	less := func(a, b candidate) bool { return b.before(a) }
	for i, x := range logits {
		if x < floor || math.IsInf(float64(x), -1) {
			continue
		}
		c := candidate{id: i, logit: x}
		switch {
		case len(heap) < k:
			heap = append(heap, c)
			up(heap, len(heap)-1, less)
		case c.before(heap[0]):
			heap[0] = c
			down(heap, 0, less)
		}
	}
	buf.heap = heap
	for n := len(heap) - 1; n > 0; n-- { // taking the least likely off leaves the rest in order
		heap[0], heap[n] = heap[n], heap[0]
		down(heap[:n], 0, less)
	}
	return heap
}

// likeliest returns the tokens whose log-probabilities are asked for.
func (s *Sampler) likeliest(logits []float32) []candidate {
	return append([]candidate(nil),
		selected(new(buffer), logits, min(s.config.Top, len(logits)), float32(math.Inf(-1)))...)
}

// nucleus returns the likeliest tokens that reach enough together, and their sum. A list that is not sorted
// is made a heap, of which only those tokens are taken.
func nucleus(list []candidate, enough float64, sorted bool) ([]candidate, float64) {
	sum := 0.0
	if sorted {
		for i, x := range list {
			if sum += x.weight; sum >= enough {
				return list[:i+1], sum
			}
		}
		return list, sum
	}
	less := func(a, b candidate) bool { return a.before(b) }
	for i := len(list)/2 - 1; i >= 0; i-- {
		down(list, i, less)
	}
	for n := len(list) - 1; n >= 0; n-- {
		list[0], list[n] = list[n], list[0]
		down(list[:n], 0, less)
		if sum += list[n].weight; sum >= enough || n == 0 {
			return reversed(list[n:]), sum
		}
	}
	return list, sum
}

func reversed(list []candidate) []candidate {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// up and down keep a heap whose first element is the least by less.
func up(h []candidate, i int, less func(a, b candidate) bool) {
	for i > 0 {
		p := (i - 1) / 2
		if !less(h[i], h[p]) {
			return
		}
		h[i], h[p], i = h[p], h[i], p
	}
}

func down(h []candidate, i int, less func(a, b candidate) bool) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && less(h[c+1], h[c]) {
			c++
		}
		if !less(h[c], h[i]) {
			return
		}
		h[i], h[c], i = h[c], h[i], c
	}
}
