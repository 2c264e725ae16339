package kernel

import "unsafe"

// plainTile is the tile size of the plain kernels: it fits the sixteen vector registers that the compiler
// uses for scalars on amd64.
const plainTile = 4

// plainKernels returns the kernels written in Go, for any processor.
func plainKernels[T Float]() gemmKernels {
	size := int(unsafe.Sizeof(*new(T)))
	native := func(v T) T { return v }
	return gemmKernels{
		size: size, mr: plainTile, nr: plainTile, mc: 128, kc: 256, nc: 1024,
		tile: tilePlain[T], axpy: axpyPlain[T], dot: dotPlain[T],
		packAcross: [formatCount]gemmPack{
			packAcrossPlain(native), packAcrossPlain(widenBF16[T]), packAcrossPlain(widenF16[T])},
		packAlong: [formatCount]gemmPack{
			packAlongPlain(native), packAlongPlain(widenBF16[T]), packAlongPlain(widenF16[T])},
	}
}

func widenBF16[T Float](h uint16) T { return T(BF16ToF32(h)) }

func widenF16[T Float](h uint16) T { return T(F16ToF32(h)) }

func scaleOf[T Float](bits uint64) T {
	if unsafe.Sizeof(*new(T)) == 4 {
		low := uint32(bits)
		return T(*(*float32)(unsafe.Pointer(&low)))
	}
	return T(*(*float64)(unsafe.Pointer(&bits)))
}

func tilePlain[T Float](k int, a, b, c, _, _ unsafe.Pointer, ldc, rows, cols int, alpha uint64,
	update Update) {
	var acc [plainTile][plainTile]T
	pa, pb := unsafe.Slice((*T)(a), k*plainTile), unsafe.Slice((*T)(b), k*plainTile)
	for len(pb) > 0 {
		n := min(len(pb), sumChain*plainTile)
		addChain(&acc, pa[:n], pb[:n])
		pa, pb = pa[n:], pb[n:]
	}
	scale := scaleOf[T](alpha)
	for i := range rows {
		row := unsafe.Slice((*T)(unsafe.Add(c, i*ldc*int(unsafe.Sizeof(*new(T))))), cols)
		if update == Accumulate {
			for j := range row {
				row[j] += scale * acc[i][j]
			}
			continue
		}
		for j := range row {
			row[j] = scale * acc[i][j]
		}
	}
}

// addChain adds the product of two panels to a tile.
func addChain[T Float](acc *[plainTile][plainTile]T, a, b []T) {
	var r0, r1 [plainTile]T
	for i := 0; i < plainTile; i += 2 {
		sumRowPair(&r0, &r1, a[i:], b)
		for j := range plainTile {
			acc[i][j] += r0[j]
			acc[i+1][j] += r1[j]
		}
	}
}

// sumRowPair computes two rows of a tile: more than these eight sums at once would spill the registers of
// amd64.
func sumRowPair[T Float](r0, r1 *[plainTile]T, a, b []T) {
	var s00, s01, s02, s03, s10, s11, s12, s13 T
	for len(b) >= plainTile && len(a) >= 2 {
		a0, a1 := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		s00 += a0 * b0
		s01 += a0 * b1
		s02 += a0 * b2
		s03 += a0 * b3
		s10 += a1 * b0
		s11 += a1 * b1
		s12 += a1 * b2
		s13 += a1 * b3
		a, b = a[min(plainTile, len(a)):], b[plainTile:]
	}
	*r0 = [plainTile]T{s00, s01, s02, s03}
	*r1 = [plainTile]T{s10, s11, s12, s13}
}

func axpyPlain[T Float](n int, y, x, b unsafe.Pointer, ldb int) {
	dst, w := unsafe.Slice((*T)(y), n), unsafe.Slice((*T)(x), axpyRows)
	src := unsafe.Slice((*T)(b), (axpyRows-1)*ldb+n)
	for r, f := range w {
		row := src[r*ldb:][:len(dst)]
		for j := range dst {
			dst[j] += f * row[j]
		}
	}
}

func dotPlain[T Float](k int, y, x, b unsafe.Pointer, ldb int) {
	dst, v := unsafe.Slice((*T)(y), dotRows), unsafe.Slice((*T)(x), k)
	src := unsafe.Slice((*T)(b), (dotRows-1)*ldb+k)
	for r := range dst {
		row := src[r*ldb:][:len(v)]
		var s0, s1, s2, s3 T
		p := 0
		for ; p+4 <= len(v); p += 4 {
			s0 += v[p] * row[p]
			s1 += v[p+1] * row[p+1]
			s2 += v[p+2] * row[p+2]
			s3 += v[p+3] * row[p+3]
		}
		for ; p < len(v); p++ {
			s0 += v[p] * row[p]
		}
		dst[r] += (s0 + s1) + (s2 + s3)
	}
}

// packAcrossPlain returns the gemmPack of sources whose k index strides.
func packAcrossPlain[S, T any](widen func(S) T) gemmPack {
	return func(dst, src unsafe.Pointer, ld, count, k, width int) {
		if k == 0 {
			return
		}
		d := unsafe.Slice((*T)(dst), k*width)
		s := unsafe.Slice((*S)(src), (k-1)*ld+count)
		for p := range k {
			row, from := d[p*width:][:width], s[p*ld:][:count]
			for i, v := range from {
				row[i] = widen(v)
			}
			clear(row[count:])
		}
	}
}

// packAlongPlain returns the gemmPack of sources whose k index is contiguous.
func packAlongPlain[S, T any](widen func(S) T) gemmPack {
	return func(dst, src unsafe.Pointer, ld, count, k, width int) {
		if k == 0 {
			return
		}
		d := unsafe.Slice((*T)(dst), k*width)
		s := unsafe.Slice((*S)(src), (count-1)*ld+k)
		for i := range count {
			for p, v := range s[i*ld:][:k] {
				d[p*width+i] = widen(v)
			}
		}
		if count == width {
			return
		}
		for p := range k {
			clear(d[p*width+count:][:width-count])
		}
	}
}
