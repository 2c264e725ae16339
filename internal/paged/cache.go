package paged

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/kernel"
)

// PageTokens is the number of tokens of a page.
const PageTokens = 16

// KVFormat is the storage format of keys and values.
type KVFormat string

// Formats: attention computes in KVF32; KVInt8 has a scale for each token and head.
const (
	KVF32  KVFormat = "f32"
	KVBF16 KVFormat = "bf16"
	KVInt8 KVFormat = "int8"
)

// KVFormats returns all formats.
func KVFormats() []KVFormat { return []KVFormat{KVF32, KVBF16, KVInt8} }

func (f KVFormat) check() error {
	if !slices.Contains(KVFormats(), f) {
		return fmt.Errorf("keys and values as %q: want one of %v", f, KVFormats())
	}
	return nil
}

// elementBytes returns the bytes of one element, vectorBytes the additional bytes of each token and head.
func (f KVFormat) elementBytes() int { return map[KVFormat]int{KVF32: 4, KVBF16: 2, KVInt8: 1}[f] }

func (f KVFormat) vectorBytes() int {
	if f == KVInt8 {
		return 4
	}
	return 0
}

// Cache is the memory for the keys and values of pages in every layer. In a page each head's keys are stored
// element by element, [dim][PageTokens], and its values token by token, [PageTokens][dim], as the products of
// attention read them.
//
// The memory is [pages/cachePages][layers][keys, values][heads][cachePages] of such matrices: what is
// read sequentially is adjacent, and the memory of consecutive pages is, too. The system allocates memory on
// the first write, in huge pages: with a range for each layer or head, all of them would be allocated in the
// same step, which then took as long as two or more.
type Cache struct {
	others []*Cache // of further devices, each with its own heads
	pages  int
	layers []layerCache
}

// cachePages is how many pages of a head are neighbours.
const cachePages = 16

type layerCache struct {
	keys, values store
	heads        int
	keyDim       int
	valueDim     int
	valueStride  int
}

// store holds matrices of one size, one for each head of each page, in one of the formats. Integers have a
// scale for each token. All stores of a cache share its memory: the first matrix is at first, and those of
// the next cachePages pages are stride elements later.
type store struct {
	size, heads   int
	first, stride int
	f32           []float32
	bf16          []uint16
	i8            []int8
	scales        []float32
}

// NewCache allocates pages for a model.
func NewCache(m *Model, pages int) *Cache {
	c := &Cache{pages: pages}
	for _, d := range m.others {
		c.others = append(c.others, NewCache(d, pages))
	}
	stride := 0
	place := func(heads, size int) store {
		s := store{size: size, heads: heads, first: stride}
		stride += cachePages * heads * size
		return s
	}
	for _, l := range m.layers {
		h := l.attention.heads()
		lc := layerCache{heads: h.keys, keyDim: h.dim, valueDim: h.valueDim, valueStride: roundUp(h.valueDim)}
		lc.keys = place(h.keys, h.dim*PageTokens)
		lc.values = place(h.keys, lc.valueStride*PageTokens)
		c.layers = append(c.layers, lc)
	}
	c.allocate(m.kv, stride)
	return c
}

// allocate allocates blocks of stride elements.
func (c *Cache) allocate(f KVFormat, stride int) {
	var all store
	n := (c.pages + cachePages - 1) / cachePages * stride
	switch f {
	case KVBF16:
		all.bf16 = kernel.MakeLarge[uint16](n)
	case KVInt8:
		all.i8 = kernel.MakeLarge[int8](n)
	default:
		all.f32 = kernel.MakeLarge[float32](n)
	}
	for i := range c.layers {
		for _, s := range []*store{&c.layers[i].keys, &c.layers[i].values} {
			s.stride, s.f32, s.bf16, s.i8 = stride, all.f32, all.bf16, all.i8
			if f == KVInt8 {
				s.scales = make([]float32, c.pages*s.heads*PageTokens)
			}
		}
	}
}

// Populate has the system allocate the memory of all pages, in order, before their first write.
func (c *Cache) Populate() {
	for _, o := range c.others {
		o.Populate()
	}
	if len(c.layers) > 0 {
		s := &c.layers[0].keys
		kernel.Populate(s.f32)
		kernel.Populate(s.bf16)
		kernel.Populate(s.i8)
	}
}

// Pages returns the number of pages.
func (c *Cache) Pages() int { return c.pages }

// PageBytes returns the memory of one page in all layers, on all devices.
func (m *Model) PageBytes() int {
	n := 0
	for _, l := range m.layers {
		h := l.attention.heads()
		n += h.keys * PageTokens * (m.kv.elementBytes()*(h.dim+roundUp(h.valueDim)) + 2*m.kv.vectorBytes())
	}
	for _, d := range m.others {
		n += d.PageBytes()
	}
	return n
}

func roundUp(n int) int { return (n + lanes - 1) / lanes * lanes }

// matrix identifies a head's matrix in a page.
type matrix struct{ page, head int }

func matrixOf(page int32, head int) matrix { return matrix{int(page), head} }

// at returns the first element of a matrix.
func (s *store) at(m matrix) int {
	return m.page/cachePages*s.stride + s.first + (m.head*cachePages+m.page%cachePages)*s.size
}

// scalesOf returns the scales of a matrix, one for each token.
func (s *store) scalesOf(m matrix) []float32 {
	at := (m.page*s.heads + m.head) * PageTokens
	return s.scales[at : at+PageTokens]
}

// put writes the keys [heads·dim] and values of one head of one token.
func (c *layerCache) put(page int32, slot, head int, keys, values []float32) {
	m := matrixOf(page, head)
	c.keys.put(m, slot, slot, PageTokens, keys[head*c.keyDim:(head+1)*c.keyDim])
	c.values.put(m, slot, slot*c.valueStride, 1, values[head*c.valueDim:(head+1)*c.valueDim])
}

// put writes a token's vector into a matrix, with a stride of step, starting at first.
func (s *store) put(m matrix, slot, first, step int, x []float32) {
	at := s.at(m) + first
	switch {
	case s.f32 != nil:
		if step == 1 {
			copy(s.f32[at:at+len(x)], x)
			return
		}
		for i, v := range x {
			s.f32[at+i*step] = v
		}
	case s.bf16 != nil:
		for i, v := range x {
			s.bf16[at+i*step] = kernel.F32ToBF16(v)
		}
	default:
		scale := rounding(x)
		s.scalesOf(m)[slot] = scale
		for i, v := range x {
			s.i8[at+i*step] = rounded(v, scale)
		}
	}
}

// rounding returns the scale that maps the largest magnitude of x to 127.
func rounding(x []float32) float32 {
	top := float32(0)
	for _, v := range x {
		top = max(top, v, -v)
	}
	return top / 127
}

func rounded(v, scale float32) int8 {
	if scale == 0 {
		return 0
	}
	q := v / scale
	if q < 0 {
		return int8(max(-127, q-0.5))
	}
	return int8(min(127, q+0.5))
}

// across adds the products of x and matrices side by side to y; at lists where they begin.
func (s *store) across(o kernel.Ordered, y, x []float32, at []int) {
	switch {
	case s.f32 != nil:
		kernel.Across(o, y, x, s.f32, at)
	case s.bf16 != nil:
		kernel.Across(o, y, x, s.bf16, at)
	default:
		kernel.Across(o, y, x, s.i8, at)
	}
}

// along adds the products of x and matrices one below the other to y.
func (s *store) along(o kernel.Ordered, y, x []float32, at []int) {
	switch {
	case s.f32 != nil:
		kernel.Along(o, y, x, s.f32, at)
	case s.bf16 != nil:
		kernel.Along(o, y, x, s.bf16, at)
	default:
		kernel.Along(o, y, x, s.i8, at)
	}
}

// scale multiplies rows of a page's elements, stride apart, by the scales of its tokens.
func (s *store) scale(x []float32, rows, stride int, m matrix, tokens int) {
	if s.scales == nil {
		return
	}
	f := s.scalesOf(m)[:tokens]
	for i := range rows {
		row := x[i*stride : i*stride+tokens]
		for j := range row {
			row[j] *= f[j]
		}
	}
}
