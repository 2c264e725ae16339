package paged

// PageTokens is how many tokens a page holds.
const PageTokens = 16

// Cache is memory for the keys and values of so many pages in every layer. In a page each head's keys are
// stored element by element, [dim][PageTokens], and its values token by token, [PageTokens][dim]: as the
// products of attention read them.
type Cache struct {
	others []*Cache // of further devices, each with its own heads
	pages  int
	layers []layerCache
}

type layerCache struct {
	keys, values   []float32
	heads          int
	keyDim         int
	valueDim       int
	valueStride    int
	keyPage        int
	valuePage      int
	keyHead        int
	valueHeadStart int
}

// NewCache takes the memory of pages for a model.
func NewCache(m *Model, pages int) *Cache {
	c := &Cache{pages: pages}
	for _, d := range m.others {
		c.others = append(c.others, NewCache(d, pages))
	}
	for _, l := range m.layers {
		h := l.attention.heads()
		lc := layerCache{heads: h.keys, keyDim: h.dim, valueDim: h.valueDim, valueStride: roundUp(h.valueDim)}
		lc.keyHead, lc.valueHeadStart = h.dim*PageTokens, lc.valueStride*PageTokens
		lc.keyPage, lc.valuePage = h.keys*lc.keyHead, h.keys*lc.valueHeadStart
		lc.keys, lc.values = make([]float32, pages*lc.keyPage), make([]float32, pages*lc.valuePage)
		c.layers = append(c.layers, lc)
	}
	return c
}

// Pages is how many there are.
func (c *Cache) Pages() int { return c.pages }

// PageBytes is the memory of one page in all layers, on all devices.
func (m *Model) PageBytes() int {
	n := 0
	for _, l := range m.layers {
		h := l.attention.heads()
		n += 4 * h.keys * PageTokens * (h.dim + roundUp(h.valueDim))
	}
	for _, d := range m.others {
		n += d.PageBytes()
	}
	return n
}

func roundUp(n int) int { return (n + lanes - 1) / lanes * lanes }

// key is the keys of a head in a page.
func (c *layerCache) key(page int32, head int) []float32 {
	at := int(page)*c.keyPage + head*c.keyHead
	return c.keys[at : at+c.keyHead]
}

// value is the values of a head in a page.
func (c *layerCache) value(page int32, head int) []float32 {
	at := int(page)*c.valuePage + head*c.valueHeadStart
	return c.values[at : at+c.valueHeadStart]
}

// put writes the keys [heads·dim] and values of one token.
func (c *layerCache) put(page int32, slot int, keys, values []float32) {
	for h := range c.heads {
		to := c.key(page, h)
		for i, x := range keys[h*c.keyDim : (h+1)*c.keyDim] {
			to[i*PageTokens+slot] = x
		}
		copy(c.value(page, h)[slot*c.valueStride:], values[h*c.valueDim:(h+1)*c.valueDim])
	}
}
