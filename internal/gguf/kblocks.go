package gguf

// decodeQ4Offset is Q4_1: a scale, the least value and 32 elements of 4 bits.
func decodeQ4Offset(x []float32, b []byte) {
	d, least := half(b), half(b[2:])
	for i, q := range b[4:] {
		x[i], x[i+16] = float32(q&15)*d+least, float32(q>>4)*d+least
	}
}

// decodeQ5 is a scale, the fifth bits of 32 elements and their lower four.
func decodeQ5(x []float32, b []byte) {
	d, high := half(b), b[2:6]
	for i, q := range b[6:] {
		x[i] = float32(int(q&15|bit(high, i)<<4)-16) * d
		x[i+16] = float32(int(q>>4|bit(high, i+16)<<4)-16) * d
	}
}

// decodeQ5Offset is Q5_1: like Q5_0, with the least value in place of a middle.
func decodeQ5Offset(x []float32, b []byte) {
	d, least, high := half(b), half(b[2:]), b[4:8]
	for i, q := range b[8:] {
		x[i] = float32(q&15|bit(high, i)<<4)*d + least
		x[i+16] = float32(q>>4|bit(high, i+16)<<4)*d + least
	}
}

func bit(b []byte, i int) byte { return b[i/8] >> (i % 8) & 1 }

// decodeQ2K is 16 groups of 16 with scales and least values of 4 bits; elements have 2 bits.
func decodeQ2K(x []float32, b []byte) {
	scales, q, d, least := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for g, s := range scales {
		low, shift := g/8*32+g%2*16, g%8/2*2
		for i := range 16 {
			v := q[low+i] >> shift & 3
			x[g*16+i] = d*float32(s&15)*float32(v) - least*float32(s>>4)
		}
	}
}

// decodeQ3K is 16 groups of 16 with scales of 6 bits; the elements' low 2 bits and the third are apart.
func decodeQ3K(x []float32, b []byte) {
	high, q, scales, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for g := range 16 {
		s := scales[g%8] >> (g / 8 * 4) & 15
		s |= scales[8+g%4] >> (g / 4 * 2) & 3 << 4
		low, shift, third := g/8*32+g%2*16, g%8/2*2, g/2
		for i := range 16 {
			v := int(q[low+i]>>shift&3) + int(high[g%2*16+i]>>third&1)*4 - 4
			x[g*16+i] = d * float32(int(s)-32) * float32(v)
		}
	}
}

// decodeQ5K is like Q4_K, with the fifth bits of the elements apart.
func decodeQ5K(x []float32, b []byte) {
	d, least := half(b), half(b[2:])
	scales, high, q := b[4:16], b[16:48], b[48:]
	for g := range 8 {
		s, m := sixBits(scales, g)
		for i := range 32 {
			v := q[g/2*32+i]>>(g%2*4)&15 | high[i]>>g&1<<4
			x[g*32+i] = d*s*float32(v) - least*m
		}
	}
}
