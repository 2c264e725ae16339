package kernel

import (
	"encoding/binary"
	"math"
	"sync"
)

// Activations quantizes one row of floats to 8 bits by groups, for products with weights whose zero point is
// the middle of the range or, with zeros, is stored for each group. A row shorter than the groups is padded
// with zeros. A group with a NaN or an infinity gives NaN. factor multiplies the scales.
func (g Grouped) Activations(dst []byte, x []float32, zeros bool, factor float32) {
	g.activations(&groupedSets[0], dst, x, zeros, factor)
}

func (g Grouped) activations(set *groupedSet, dst []byte, x []float32, zeros bool, factor float32) {
	g.check(zeros)
	const most = 64
	dst = dst[:g.Stride()]
	each := g.Group + record
	for lo := 0; lo < g.Groups; lo += most {
		n := min(most, g.Groups-lo)
		part := x[min(len(x), lo*g.Group):min(len(x), (lo+n)*g.Group)]
		if len(part) < n*g.Group {
			n = len(part) / g.Group
			g.block(set, dst[lo*each:], part, n, zeros, factor)
			g.tail(set, dst[(lo+n)*each:], part[n*g.Group:], g.Groups-lo-n, zeros, factor)
			return
		}
		g.block(set, dst[lo*each:], part, n, zeros, factor)
	}
}

// tail quantizes n groups; x is the beginning of the first, and the rest is zeros.
func (g Grouped) tail(set *groupedSet, dst []byte, x []float32, n int, zeros bool, factor float32) {
	room := lastGroups.Get().(*[GroupedMost]float32)
	clear(room[:])
	copy(room[:], x)
	for i := range n {
		g.block(set, dst[i*(g.Group+record):], room[:g.Group], 1, zeros, factor)
		clear(room[:])
	}
	lastGroups.Put(room)
}

var lastGroups = sync.Pool{New: func() any { return new([GroupedMost]float32) }}

// roundingRoom holds the largest absolute value, as bits, and the factor of each group of a block. It is
// pooled: memory whose address is passed to a kernel would be allocated for every row.
type roundingRoom struct {
	bits    [64]uint32
	factors [64]float32
}

var rounding = sync.Pool{New: func() any { return new(roundingRoom) }}

// block quantizes n whole groups, at most 64.
func (g Grouped) block(set *groupedSet, dst []byte, x []float32, n int, zeros bool, factor float32) {
	if n == 0 {
		return
	}
	room := rounding.Get().(*roundingRoom)
	bits, factors := &room.bits, &room.factors
	clear(bits[:n])
	if set.largest != nil {
		set.largest(n, g.Group/GroupedUnit, &bits[0], &x[0])
	} else {
		g.plainLargest(bits[:n], x)
	}
	for i, b := range bits[:n] {
		top := math.Float32frombits(b)
		scale, f := top/127, 127/top
		switch {
		case math.IsInf(float64(f), 1): // the group is so small that it is rounded to zero
			scale, f = 0, 0
		case math.IsInf(float64(top), 1):
			scale = float32(math.NaN())
		}
		factors[i] = f
		binary.LittleEndian.PutUint32(dst[i*(g.Group+record)+g.Group:], math.Float32bits(scale*factor))
	}
	if set.round != nil {
		set.round(n, g.Group/GroupedUnit, &dst[0], &x[0], &factors[0])
	} else {
		g.plainRound(dst, x, factors[:n])
	}
	rounding.Put(room)
	times := int32(-1)
	if !zeros {
		times = -1 << (g.Bits - 1)
	}
	for i := range n {
		sum := dst[i*(g.Group+record)+g.Group+4:]
		binary.LittleEndian.PutUint32(sum, uint32(times*int32(binary.LittleEndian.Uint32(sum))))
	}
}

func (g Grouped) plainLargest(bits []uint32, x []float32) {
	for i := range bits {
		for _, v := range x[i*g.Group : (i+1)*g.Group] {
			bits[i] = max(bits[i], math.Float32bits(v)&0x7fffffff)
		}
	}
}

func (g Grouped) plainRound(dst []byte, x, factors []float32) {
	for i, f := range factors {
		to, sum := dst[i*(g.Group+record):], int32(0)
		for p, v := range x[i*g.Group : (i+1)*g.Group] {
			n := int32(math.RoundToEven(float64(float32(v * f))))
			to[p] = byte(n)
			sum += n
		}
		binary.LittleEndian.PutUint32(to[g.Group+4:], uint32(sum))
	}
}
