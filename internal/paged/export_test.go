package paged

import "math"

// Poison fills a cache with what is not a number: nobody may read what was not written.
func Poison(c *Cache) {
	for _, o := range c.others {
		Poison(o)
	}
	nan := float32(math.NaN())
	for _, l := range c.layers {
		for i := range l.keys {
			l.keys[i] = nan
		}
		for i := range l.values {
			if i%l.valueStride < l.valueDim {
				l.values[i] = nan
			}
		}
	}
}
