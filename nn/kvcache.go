package nn

import "github.com/galley-ml/galley/op"

// KVCache holds one layer's keys and values of earlier tokens. The zero value is empty and grows with each
// call; since shapes change, it is for eager tensors.
type KVCache struct {
	// K and V are [batch, kept, heads, dim].
	K, V *op.Tensor
	// Start, if set, is the number of earlier tokens as an integer scalar, and K and V have room for all
	// future ones: new ones are written at Start, so that every call is the same program.
	Start *op.Tensor
	// Pages, if set, means that K and V are pools of pages, [slots, heads, dim], that new ones are written into.
	Pages *Pages
	seen  int
}

// position returns where new tokens begin, in RoPE's form.
func (c *KVCache) position() (offset int, start *op.Tensor) {
	if c == nil {
		return 0, nil
	}
	return c.seen, c.Start
}

// extend adds keys and values of new tokens and returns all of them, and sets the mask's offset.
func (c *KVCache) extend(k, v *op.Tensor, mask *op.AttentionConfig) (allK, allV *op.Tensor) {
	if k.Err() != nil || v.Err() != nil {
		return k, v
	}
	switch {
	case c.Start != nil:
		mask.Start = c.Start
		c.K, c.V = op.DynamicUpdateSlice(c.K, k, c.Start, 1), op.DynamicUpdateSlice(c.V, v, c.Start, 1)
	case c.K == nil:
		c.seen += k.Dim(1)
		c.K, c.V = k, v
	default:
		c.seen += k.Dim(1)
		mask.Offset = c.K.Dim(1)
		c.K, c.V = op.Concat([]*op.Tensor{c.K, k}, 1), op.Concat([]*op.Tensor{c.V, v}, 1)
	}
	return c.K, c.V
}

// keep drops what no later token attends to.
func (c *KVCache) keep(window int) {
	if window == 0 || c.Start != nil || c.K == nil || c.K.Err() != nil || c.K.Dim(1) < window {
		return
	}
	n := c.K.Dim(1)
	c.K, c.V = op.Narrow(c.K, 1, n-window+1, n), op.Narrow(c.V, 1, n-window+1, n)
}
