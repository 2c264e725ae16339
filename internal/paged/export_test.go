package paged

import "math"

// SplitKeys is how many keys attention takes for itself.
const SplitKeys = splitKeys

// Poison fills a cache with what is not a number: nobody may read what was not written.
func Poison(c *Cache) {
	for _, o := range c.others {
		Poison(o)
	}
	for i := range c.layers {
		l := &c.layers[i]
		for page := range c.pages {
			for h := range l.heads {
				m := matrix{page, h}
				l.keys.poison(m, 1, 1)
				l.values.poison(m, l.valueStride, l.valueDim)
			}
		}
	}
}

// poison leaves alone what rows of stride elements have beyond width.
func (s *store) poison(m matrix, stride, width int) {
	nan := float32(math.NaN())
	for i := range s.size {
		at := s.at(m) + i
		switch {
		case i%stride >= width:
		case s.f32 != nil:
			s.f32[at] = nan
		case s.bf16 != nil:
			s.bf16[at] = 0x7fc0
		}
	}
	if s.scales != nil {
		for i := range s.scalesOf(m) {
			s.scalesOf(m)[i] = nan
		}
	}
}
