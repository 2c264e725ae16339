package models

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// PoolTypes returns the types of PagedCache's pools: the keys and the values of each layer in turn, [slots,
// heads, dim].
func PoolTypes(m Model, slots int, as array.DType) []op.Type {
	types := CacheTypes(m, 1, slots)
	for i := range types {
		types[i] = op.Type{DType: as, Shape: types[i].Shape[1:]}
	}
	return types
}

// PagedCache returns a cache in pools of PoolTypes, which sequences share by pages.
func PagedCache(pools []*op.Tensor, p *nn.Pages) *Cache {
	c := &Cache{pages: p}
	for i := 0; i+1 < len(pools); i += 2 {
		c.layers = append(c.layers, &nn.KVCache{K: pools[i], V: pools[i+1], Pages: p})
	}
	return c
}

// inPages returns the pages of a cache; nil if it is not paged.
func (c *Cache) inPages() *nn.Pages {
	if c == nil {
		return nil
	}
	return c.pages
}

// Continue processes ids [batch, seq], which continue the sequences in a PagedCache, and extends it. It
// returns the hidden states after the last norm and the logits, in float32, of the tokens among batch·seq
// whose indices are in the vector wanted.
func Continue(m Model, ids, wanted *op.Tensor, c *Cache) (hidden, logits *op.Tensor) {
	d, ok := m.(*decoder)
	if !ok || len(c.layers) != len(d.blocks) || c.pages == nil {
		bad := invalid(ids, fmt.Errorf("a cache of %d layers for a %T: want a PagedCache of the model's",
			len(c.layers), m))
		return bad, bad
	}
	x := d.hidden(ids, c)
	if x.Err() != nil {
		return x, x
	}
	x = op.IndexSelect(op.Reshape(x, x.Dim(0)*x.Dim(1), x.Dim(2)), 0, wanted)
	return op.Cast(x, array.F32), op.Cast(d.logits(x), array.F32)
}
