package models

import (
	"fmt"

	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Cache is a key-value cache: the keys and values of the tokens that a model has processed. A nil Cache
// caches nothing.
type Cache struct {
	layers []*nn.KVCache
	// limit is the maximal number of tokens, length the current one; if start is set, it holds the current one.
	limit, length int
	start         *op.Tensor
	// pages, if set, locates the keys and values of the layers.
	pages *nn.Pages
}

// NewCache returns an empty cache for up to limit tokens, for eager tensors. It grows during decoding.
func NewCache(m Model, limit int) *Cache {
	c := &Cache{limit: limit}
	for range m.Config().Layers {
		c.layers = append(c.layers, &nn.KVCache{})
	}
	return c
}

// CacheTypes returns the types of FixedCache's values: the keys and the values of each layer in turn.
func CacheTypes(m Model, batch, limit int) []op.Type {
	d, ok := m.(*decoder)
	if !ok {
		return nil
	}
	var types []op.Type
	for _, b := range d.blocks {
		for _, shape := range b.cache(batch, limit) {
			types = append(types, op.Type{DType: m.Params()[0].Type.DType, Shape: shape})
		}
	}
	return types
}

// FixedCache returns a cache in tensors of CacheTypes, the first start tokens of which, an integer scalar,
// are filled. Decoding writes into them, so that one traced program serves every step.
func FixedCache(values []*op.Tensor, start *op.Tensor) *Cache {
	c := &Cache{start: start}
	for i := 0; i+1 < len(values); i += 2 {
		c.layers = append(c.layers, &nn.KVCache{K: values[i], V: values[i+1], Start: start})
		c.limit = values[i].Dim(1)
	}
	return c
}

// Values returns the contents of the cache: the keys and the values of each layer in turn.
func (c *Cache) Values() []*op.Tensor {
	var values []*op.Tensor
	for _, l := range c.layers {
		values = append(values, l.K, l.V)
	}
	return values
}

// Len returns the number of tokens in the cache.
func (c *Cache) Len() int {
	if c == nil {
		return 0
	}
	return c.length
}

func (c *Cache) layer(i int) *nn.KVCache {
	if c == nil {
		return nil
	}
	return c.layers[i]
}

func (m *decoder) Decode(ids *op.Tensor, c *Cache) *op.Tensor {
	if ids.Err() != nil {
		return ids
	}
	if len(c.layers) != len(m.blocks) {
		return invalid(ids, fmt.Errorf("cache of %d layers: the model has %d", len(c.layers), len(m.blocks)))
	}
	if f, err := familyOf(m.config.Family); err != nil || f.encoder || m.config.Task != Predict {
		return invalid(ids, fmt.Errorf("%s sees whole sequences: it continues none", m.config.Family))
	}
	if n := c.length + ids.Dim(1); n > c.limit || ids.Dim(1) == 0 {
		return invalid(ids, fmt.Errorf("cache for %d tokens: %d and then ids %v", c.limit, c.length, ids.Type()))
	}
	if n := m.config.Rope.fixedUpTo(); n > 0 && c.start != nil && c.limit > n {
		return invalid(ids,
			fmt.Errorf("cache of a fixed size for %d tokens: rope type %s is another beyond %d: want no more",
				c.limit, m.config.Rope.Type, n))
	}
	x := m.hidden(ids, c)
	if x.Err() != nil {
		return x
	}
	c.length += ids.Dim(1)
	last := op.Narrow(x, 1, x.Dim(1)-1, x.Dim(1))
	return m.logits(op.Reshape(last, x.Dim(0), m.config.Hidden))
}
