package paged

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/kernel"
)

// PageTokens is how many tokens a page holds.
const PageTokens = 16

// KVFormat is how keys and values are kept.
type KVFormat string

// The formats: KVF32 is what attention computes with; KVInt8 has a scale for each token and head.
const (
	KVF32  KVFormat = "f32"
	KVBF16 KVFormat = "bf16"
	KVInt8 KVFormat = "int8"
)

// KVFormats returns all of them.
func KVFormats() []KVFormat { return []KVFormat{KVF32, KVBF16, KVInt8} }

func (f KVFormat) check() error {
	if !slices.Contains(KVFormats(), f) {
		return fmt.Errorf("keys and values as %q: want one of %v", f, KVFormats())
	}
	return nil
}

// elementBytes returns the memory of one element, vectorBytes what each token and head takes beside.
func (f KVFormat) elementBytes() int { return map[KVFormat]int{KVF32: 4, KVBF16: 2, KVInt8: 1}[f] }

func (f KVFormat) vectorBytes() int {
	if f == KVInt8 {
		return 4
	}
	return 0
}

// Cache is memory for the keys and values of so many pages in every layer. In a page each head's keys are
// stored element by element, [dim][PageTokens], and its values token by token, [PageTokens][dim]: as the
// products of attention read them.
type Cache struct {
	others []*Cache // of further devices, each with its own heads
	pages  int
	layers []layerCache
}

type layerCache struct {
	keys, values store
	heads, pages int
	keyDim       int
	valueDim     int
	valueStride  int
}

// store is matrices of one size, one for each head of each page, in one of the formats. Integers have a scale
// for each token.
type store struct {
	size   int
	f32    []float32
	bf16   []uint16
	i8     []int8
	scales []float32
}

func newStore(f KVFormat, matrices, size int) store {
	s := store{size: size}
	switch f {
	case KVBF16:
		s.bf16 = kernel.MakeLarge[uint16](matrices * size)
	case KVInt8:
		s.i8, s.scales = kernel.MakeLarge[int8](matrices*size), make([]float32, matrices*PageTokens)
	default:
		s.f32 = kernel.MakeLarge[float32](matrices * size)
	}
	return s
}

// NewCache takes the memory of pages for a model.
func NewCache(m *Model, pages int) *Cache {
	c := &Cache{pages: pages}
	for _, d := range m.others {
		c.others = append(c.others, NewCache(d, pages))
	}
	for _, l := range m.layers {
		h := l.attention.heads()
		lc := layerCache{heads: h.keys, pages: pages, keyDim: h.dim, valueDim: h.valueDim,
			valueStride: roundUp(h.valueDim)}
		lc.keys = newStore(m.kv, pages*h.keys, h.dim*PageTokens)
		lc.values = newStore(m.kv, pages*h.keys, lc.valueStride*PageTokens)
		c.layers = append(c.layers, lc)
	}
	return c
}

// Pages returns how many there are.
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

// matrix returns the number of a head's in a page. All pages of a head lie together: a sequence's pages are
// often neighbours, and what is read in turn then is too.
func (c *layerCache) matrix(page int32, head int) int { return head*c.pages + int(page) }

// put writes the keys [heads·dim] and values of one token.
func (c *layerCache) put(page int32, slot int, keys, values []float32) {
	for h := range c.heads {
		m := c.matrix(page, h)
		c.keys.put(m, slot, slot, PageTokens, keys[h*c.keyDim:(h+1)*c.keyDim])
		c.values.put(m, slot, slot*c.valueStride, 1, values[h*c.valueDim:(h+1)*c.valueDim])
	}
}

// put writes a token's vector into a matrix, its elements step apart from one on.
func (s *store) put(matrix, slot, first, step int, x []float32) {
	at := matrix*s.size + first
	switch {
	case s.f32 != nil:
		for i, v := range x {
			s.f32[at+i*step] = v
		}
	case s.bf16 != nil:
		for i, v := range x {
			s.bf16[at+i*step] = kernel.F32ToBF16(v)
		}
	default:
		scale := rounding(x)
		s.scales[matrix*PageTokens+slot] = scale
		for i, v := range x {
			s.i8[at+i*step] = rounded(v, scale)
		}
	}
}

// rounding returns the scale that makes the largest of x 127.
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

// multiply adds x times a matrix to y.
func (s *store) multiply(o kernel.Ordered, y, x []float32, matrix int) {
	lo, hi := matrix*s.size, (matrix+1)*s.size
	switch {
	case s.f32 != nil:
		o.F32(y, x, s.f32[lo:hi])
	case s.bf16 != nil:
		o.BF16(y, x, s.bf16[lo:hi])
	default:
		o.I8(y, x, s.i8[lo:hi])
	}
}

// fetch asks for a matrix that is multiplied soon: pages of a sequence are anywhere.
func (s *store) fetch(matrix int) {
	lo, hi := matrix*s.size, (matrix+1)*s.size
	switch {
	case s.f32 != nil:
		kernel.Fetch(s.f32[lo:hi])
	case s.bf16 != nil:
		kernel.Fetch(s.bf16[lo:hi])
	default:
		kernel.Fetch(s.i8[lo:hi])
	}
}

// scale multiplies rows of a page's elements, stride apart, by the scales of its tokens.
func (s *store) scale(x []float32, rows, stride, matrix, tokens int) {
	if s.scales == nil {
		return
	}
	f := s.scales[matrix*PageTokens : matrix*PageTokens+tokens]
	for i := range rows {
		row := x[i*stride : i*stride+tokens]
		for j := range row {
			row[j] *= f[j]
		}
	}
}
