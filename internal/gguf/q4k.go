package gguf

import (
	"encoding/binary"
	"math"

	"github.com/galley-ml/galley/internal/kernel"
)

// A Q4_K block is 256 elements in 8 groups of 32: element = d·scale·q - least·offset, with q of 4 bits,
// scale and offset of 6 bits for each group, d and least of 16 bits for all.
const (
	superElems = 256
	superGroup = 32
	superTop   = 63 // of 6 bits
	nibbleTop  = 15
)

// EncodeQ4K returns rows of floats as blocks of Q4_K; their length is a multiple of 256.
func EncodeQ4K(x []float32) []byte {
	b := make([]byte, len(x)/superElems*kinds[Q4_K].size)
	for to := b; len(x) > 0; x, to = x[superElems:], to[kinds[Q4_K].size:] {
		encodeQ4K(to, x[:superElems])
	}
	return b
}

// line is what a group's elements are on: scale·q - offset, neither below 0.
type line struct{ scale, offset float64 }

func encodeQ4K(b []byte, x []float32) {
	var lines [8]line
	var top line
	for g := range lines {
		lines[g] = fit(x[g*superGroup : (g+1)*superGroup])
		top.scale, top.offset = max(top.scale, lines[g].scale), max(top.offset, lines[g].offset)
	}
	d, least := halfOf(b, top.scale/superTop), halfOf(b[2:], top.offset/superTop)
	for g, l := range lines {
		s, m := steps(l.scale, d), steps(l.offset, least)
		putSixBits(b[4:16], g, s, m)
		scale, offset := d*float64(s), least*float64(m)
		for i, v := range x[g*superGroup : (g+1)*superGroup] {
			b[16+g/2*superGroup+i] |= nibble(float64(v), scale, offset) << (g % 2 * 4)
		}
	}
}

// halfOf writes a number of 16 bits and is what it became.
func halfOf(b []byte, v float64) float64 {
	h := kernel.F32ToF16(float32(v))
	binary.LittleEndian.PutUint16(b, h)
	return float64(kernel.F16ToF32(h))
}

// steps returns how many units v is, as 6 bits hold it.
func steps(v, unit float64) byte {
	if unit == 0 {
		return 0
	}
	return byte(min(superTop, math.Round(v/unit)))
}

// nibble returns the nearest of 16 places on a line.
func nibble(v, scale, offset float64) byte {
	if scale == 0 {
		return 0
	}
	return byte(max(0, min(nibbleTop, math.Round((v+offset)/scale))))
}

// putSixBits is the reverse of sixBits, into zeros.
func putSixBits(s []byte, j int, scale, least byte) {
	if j < 4 {
		s[j], s[j+4] = s[j]|scale, s[j+4]|least
		return
	}
	s[j+4] |= scale&15 | least<<4
	s[j-4] |= scale >> 4 << 6
	s[j] |= least >> 4 << 6
}

// fit returns a line with a small sum of squared errors for a group: from ranges around that of its elements,
// each is improved once by the best line through the places that its elements have there.
func fit(x []float32) line {
	lo, hi := 0.0, 0.0
	for _, v := range x {
		lo, hi = min(lo, float64(v)), max(hi, float64(v))
	}
	best := line{scale: (hi - lo) / nibbleTop, offset: -lo}
	if best.scale == 0 {
		return best
	}
	least := best.loss(x)
	for cut := -4; cut <= 12; cut++ { // a smaller scale cuts the ends and is finer between them
		l := line{scale: (hi - lo) / (nibbleTop + 0.25*float64(cut)), offset: -lo}
		for _, l := range []line{l, l.improved(x)} {
			if e := l.loss(x); e < least {
				best, least = l, e
			}
		}
	}
	return best
}

// loss returns the sum of squared errors.
func (l line) loss(x []float32) (sum float64) {
	for _, v := range x {
		e := l.scale*float64(nibble(float64(v), l.scale, l.offset)) - l.offset - float64(v)
		sum += e * e
	}
	return sum
}

// improved returns the line of least squares through the places of elements on this one.
func (l line) improved(x []float32) line {
	var q, qq, v, qv float64
	for _, e := range x {
		p := float64(nibble(float64(e), l.scale, l.offset))
		q, qq, v, qv = q+p, qq+p*p, v+float64(e), qv+p*float64(e)
	}
	n := float64(len(x))
	det := n*qq - q*q
	if det <= 0 {
		return l
	}
	better := line{scale: (n*qv - q*v) / det}
	better.offset = (better.scale*q - v) / n
	if better.offset < 0 && qq > 0 { // through 0 then
		better = line{scale: qv / qq}
	}
	if better.scale <= 0 {
		return l
	}
	return better
}
