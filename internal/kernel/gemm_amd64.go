//go:build !noasm

package kernel

import "unsafe"

// gemmAsmSets returns the sets in assembly that this processor can run.
func gemmAsmSets() []gemmSet {
	var sets []gemmSet
	if hasAVX512() {
		sets = append(sets, gemmSet{"AVX-512", gemmF32AVX512(), gemmF64AVX512()})
	}
	if hasAVX2() {
		sets = append(sets, gemmSet{"AVX2", gemmF32AVX2(), gemmF64AVX2()})
	}
	return sets
}

func gemmF32AVX512() gemmKernels {
	const lanes = 16
	return gemmKernels{
		size: 4, mr: 14, nr: 32, mc: 336, kc: 512, nc: 4096, stripCols: 2 * lanes, stripWide: 4 * lanes,
		stripTerms: sumChain, stripRows: 128,
		tile: gemmTileF32AVX512, strip: gemmStripF32AVX512, axpy: gemmAxpyF32AVX512, dot: gemmDotF32AVX512,
		packAcross: [formatCount]gemmPack{
			packAcrossAsm(4, 1, gemmAcrossF32AVX512, nil),
			packAcrossAsm(4, 1, gemmAcrossBF16F32AVX512, nil),
			packAcrossAsm(4, 1, gemmAcrossF16F32AVX512, nil)},
		packAlong: [formatCount]gemmPack{
			packAlongAsm(4, 4, lanes, 1, gemmAlongF32AVX512, nil),
			packAlongAsm(4, 2, lanes, 1, gemmAlongBF16F32AVX512, nil),
			packAlongAsm(4, 2, lanes, 1, gemmAlongF16F32AVX512, nil)},
		spreadA: [formatCount]gemmSpread{gemmSpreadRowsF32AVX512, gemmSpreadRowsBF16F32AVX512,
			gemmSpreadRowsF16F32AVX512},
		spreadB: [formatCount]gemmSpread{gemmSpreadColsF32AVX512, gemmSpreadColsBF16F32AVX512,
			gemmSpreadColsF16F32AVX512},
	}
}

func gemmF64AVX512() gemmKernels {
	const lanes = 8
	return gemmKernels{
		size: 8, mr: 14, nr: 16, mc: 336, kc: 256, nc: 2048, stripCols: 2 * lanes, stripWide: 4 * lanes,
		stripTerms: 256, stripRows: 128,
		tile: gemmTileF64AVX512, strip: gemmStripF64AVX512, axpy: gemmAxpyF64AVX512, dot: gemmDotF64AVX512,
		packAcross: [formatCount]gemmPack{packAcrossAsm(8, 1, gemmAcrossF64AVX512, nil)},
		packAlong:  [formatCount]gemmPack{packAlongAsm(8, 8, lanes, 1, gemmAlongF64AVX512, nil)},
		spreadA:    [formatCount]gemmSpread{gemmSpreadRowsF64AVX512},
		spreadB:    [formatCount]gemmSpread{gemmSpreadColsF64AVX512},
	}
}

func gemmF32AVX2() gemmKernels {
	const lanes = 8
	plain := plainKernels[float32]()
	return gemmKernels{
		size: 4, mr: 4, nr: 24, mc: 144, kc: 256, nc: 3072, stripCols: 2 * lanes, stripWide: 2 * lanes,
		stripTerms: sumChain, stripRows: 32,
		tile: gemmTileF32AVX2, strip: gemmStripF32AVX2, axpy: gemmAxpyF32AVX2, dot: gemmDotF32AVX2,
		packAcross: [formatCount]gemmPack{
			packAcrossAsm(4, 1, gemmAcrossF32AVX2, nil),
			packAcrossAsm(4, lanes, gemmAcrossBF16F32AVX2, plain.packAcross[formatBF16]),
			packAcrossAsm(4, lanes, gemmAcrossF16F32AVX2, plain.packAcross[formatF16])},
		packAlong: [formatCount]gemmPack{
			packAlongAsm(4, 4, lanes, lanes, gemmAlongF32AVX2, plain.packAlong[formatNative]),
			packAlongAsm(4, 2, lanes, lanes, gemmAlongBF16F32AVX2, plain.packAlong[formatBF16]),
			packAlongAsm(4, 2, lanes, lanes, gemmAlongF16F32AVX2, plain.packAlong[formatF16])},
		spreadA: [formatCount]gemmSpread{gemmSpreadRowsF32AVX2, gemmSpreadRowsBF16F32AVX2,
			gemmSpreadRowsF16F32AVX2},
		spreadB: [formatCount]gemmSpread{gemmSpreadColsF32AVX2, gemmSpreadColsBF16F32AVX2,
			gemmSpreadColsF16F32AVX2},
	}
}

func gemmF64AVX2() gemmKernels {
	const lanes = 4
	plain := plainKernels[float64]()
	return gemmKernels{
		size: 8, mr: 4, nr: 12, mc: 96, kc: 192, nc: 1536, stripCols: 2 * lanes, stripWide: 2 * lanes,
		stripTerms: 192, stripRows: 32,
		tile: gemmTileF64AVX2, strip: gemmStripF64AVX2, axpy: gemmAxpyF64AVX2, dot: gemmDotF64AVX2,
		packAcross: [formatCount]gemmPack{packAcrossAsm(8, 1, gemmAcrossF64AVX2, nil)},
		packAlong: [formatCount]gemmPack{
			packAlongAsm(8, 8, lanes, lanes, gemmAlongF64AVX2, plain.packAlong[formatNative])},
		spreadA: [formatCount]gemmSpread{gemmSpreadRowsF64AVX2},
		spreadB: [formatCount]gemmSpread{gemmSpreadColsF64AVX2},
	}
}

// packAcrossAsm makes a gemmPack of a copying kernel, for elements of size bytes. The kernel
// does not write gaps; if it needs counts that are multiples of unit, a fallback handles the
// others.
func packAcrossAsm(size, unit int, kernel func(dst, src unsafe.Pointer, ld, count, k, width int),
	other gemmPack) gemmPack {
	return func(dst, src unsafe.Pointer, ld, count, k, width int) {
		if count%unit != 0 {
			other(dst, src, ld, count, k, width)
			return
		}
		if count < width {
			clear(unsafe.Slice((*byte)(dst), k*width*size))
		}
		kernel(dst, src, ld, count, k, width)
	}
}

// packAlongAsm makes a gemmPack of a transposing kernel, which reads lanes source rows of elements
// of from bytes at a time. If it needs a k that is a multiple of unit, a fallback handles the
// rest.
func packAlongAsm(size, from, lanes, unit int,
	kernel func(dst, src unsafe.Pointer, ld, count, k, width, store int), other gemmPack) gemmPack {
	return func(dst, src unsafe.Pointer, ld, count, k, width int) {
		whole := k / unit * unit
		for i := 0; whole > 0 && i < width; i += lanes {
			group := src
			if i < count {
				group = unsafe.Add(src, i*ld*from)
			}
			kernel(unsafe.Add(dst, i*size), group, ld, max(0, min(lanes, count-i)), whole, width, min(lanes, width-i))
		}
		if whole < k {
			other(unsafe.Add(dst, whole*width*size), unsafe.Add(src, whole*from), ld, count, k-whole, width)
		}
	}
}
