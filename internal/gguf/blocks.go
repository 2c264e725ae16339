package gguf

import (
	"encoding/binary"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/quant"
)

func half(b []byte) float32 { return kernel.F16ToF32(binary.LittleEndian.Uint16(b)) }

// decode sets x to what blocks mean.
func (k Kind) decode(x []float32, b []byte) {
	each := map[Kind]func([]float32, []byte){Q8_0: decodeQ8, Q4_0: decodeQ4, Q4_1: decodeQ4Offset,
		Q5_0: decodeQ5, Q5_1: decodeQ5Offset, Q2_K: decodeQ2K, Q3_K: decodeQ3K, Q4_K: decodeQ4K,
		Q5_K: decodeQ5K, Q6_K: decodeQ6K}[k]
	n, size := kinds[k].elems, kinds[k].size
	for ; len(b) > 0; x, b = x[n:], b[size:] {
		each(x[:n], b[:size])
	}
}

// decodeQ8 is a scale and 32 bytes.
func decodeQ8(x []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		x[i] = float32(int8(q)) * d
	}
}

// decodeQ4 is a scale and 16 bytes: the first half of the block in their low bits, the second in the high
// ones.
func decodeQ4(x []float32, b []byte) {
	d := half(b)
	for i, q := range b[2:] {
		x[i], x[i+16] = float32(int(q&15)-8)*d, float32(int(q>>4)-8)*d
	}
}

// decodeQ4K is 8 groups of 32, whose scales and least values have 6 bits each and scales of their own.
func decodeQ4K(x []float32, b []byte) {
	d, least := half(b), half(b[2:])
	scales, q := b[4:16], b[16:]
	for g := 0; g < 8; g += 2 {
		s1, m1 := sixBits(scales, g)
		s2, m2 := sixBits(scales, g+1)
		for i := range 32 {
			v := q[g/2*32+i]
			x[g*32+i] = d*s1*float32(v&15) - least*m1
			x[g*32+32+i] = d*s2*float32(v>>4) - least*m2
		}
	}
}

// sixBits returns the scale and the least value of group j of a Q4_K block.
func sixBits(s []byte, j int) (scale, least float32) {
	if j < 4 {
		return float32(s[j] & 63), float32(s[j+4] & 63)
	}
	return float32(s[j+4]&15 | s[j-4]>>6<<4), float32(s[j+4]>>4 | s[j]>>6<<4)
}

// decodeQ6K is 16 groups of 16 with scales of 8 bits; the elements' low 4 bits and high 2 are apart.
func decodeQ6K(x []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for n := range 2 {
		lo, hi, sc, y := low[64*n:], high[32*n:], scales[8*n:], x[128*n:]
		for i := range 32 {
			for part := range 4 {
				v := lo[i+part%2*32] >> (part / 2 * 4) & 15
				v |= hi[i] >> (2 * part) & 3 << 4
				y[32*part+i] = d * float32(int8(sc[i/16+2*part])) * float32(int(v)-32)
			}
		}
	}
}

// integers returns a matrix of Q8_0 or Q4_0 blocks.
func integers(k Kind, b []byte, out, in int) quant.Matrix {
	m := quant.Matrix{Out: out, In: in, Group: 32, Bits: 8}
	m.Values, m.Scales = make([]byte, out*in), make([]float32, out*in/32)
	if k == Q4_0 {
		m.Bits = 4
	}
	size := kinds[k].size
	for g := range m.Scales {
		block, v := b[g*size:(g+1)*size], m.Values[g*32:(g+1)*32]
		m.Scales[g] = half(block)
		for i, q := range block[2:] {
			if k == Q8_0 {
				v[i] = q + 128
				continue
			}
			v[i], v[i+16] = q&15, q>>4
		}
	}
	return m
}

// Blocks returns a matrix of integers in groups of 32 as blocks of Q8_0 or Q4_0.
func Blocks(m quant.Matrix) (Kind, []byte) {
	k := Q8_0
	if m.Bits == 4 {
		k = Q4_0
	}
	var b []byte
	for g, s := range m.Scales {
		b = binary.LittleEndian.AppendUint16(b, kernel.F32ToF16(s))
		v := m.Values[g*32 : (g+1)*32]
		for i := range 32 {
			if k == Q8_0 {
				b = append(b, v[i]-128)
			} else if i < 16 {
				b = append(b, v[i]|v[i+16]<<4)
			}
		}
	}
	return k, b
}
