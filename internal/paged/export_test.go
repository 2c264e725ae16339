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
		l.keys.poison(1, 1)
		l.values.poison(l.valueStride, l.valueDim)
	}
}

// poison leaves alone what rows of stride elements have beyond width.
func (s *store) poison(stride, width int) {
	nan := float32(math.NaN())
	for i := range s.f32 {
		if i%stride < width {
			s.f32[i] = nan
		}
	}
	for i := range s.bf16 {
		if i%stride < width {
			s.bf16[i] = 0x7fc0
		}
	}
	for i := range s.scales {
		s.scales[i] = nan
	}
}
