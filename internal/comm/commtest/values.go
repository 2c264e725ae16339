package commtest

import (
	"bytes"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

// hash spreads its arguments over 64 bits, so that ranks agree on all inputs without exchanging them.
func hash(xs ...int) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, x := range xs {
		h ^= uint64(x)
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 29
	}
	return h
}

// Input returns an array of small whole numbers made from seed and rank. Sums of eight of them are exact in
// every type.
func Input(dtype array.DType, seed, rank int, shape ...int) array.Array {
	v := make([]float64, array.Shape(shape).Len())
	for i := range v {
		v[i] = float64(hash(seed, rank, i) % 8)
		if dtype == array.Bool {
			v[i] = float64(int(v[i]) & 1)
		}
	}
	return fromFloats(dtype, v, shape)
}

// fromFloats makes an array of v, wrapping integers around as Go's arithmetic does.
func fromFloats(dtype array.DType, v []float64, shape array.Shape) array.Array {
	a := array.New(dtype, shape...)
	for i, x := range v {
		a.Set(i, x)
	}
	return a
}

// reduced returns the elementwise combination of xs, in float64: exact for Input's numbers.
func reduced(by comm.Reduce, xs []array.Array) array.Array {
	v := xs[0].Float64s()
	for _, x := range xs[1:] {
		for i, y := range x.Float64s() {
			switch by {
			case comm.Sum, comm.Mean:
				v[i] += y
			case comm.Prod:
				v[i] *= y
			case comm.Max, comm.Any:
				v[i] = max(v[i], y)
			case comm.Min, comm.All:
				v[i] = min(v[i], y)
			}
		}
	}
	if by == comm.Mean {
		for i := range v {
			v[i] /= float64(len(xs))
		}
	}
	return fromFloats(xs[0].DType(), v, xs[0].Shape())
}

// each calls f for every element of a box of the given shape, with its index in the box and in the whole
// array, whose size along dim is total and in which the box begins at off.
func each(shape array.Shape, dim, off, total int, f func(box, whole int)) {
	outer, inner := array.Shape(shape[:dim]).Len(), array.Shape(shape[dim+1:]).Len()
	for o := range outer {
		for d := range shape[dim] {
			for i := range inner {
				f((o*shape[dim]+d)*inner+i, (o*total+off+d)*inner+i)
			}
		}
	}
}

// joined returns the parts one after the other along dim.
func joined(dim int, parts []array.Array) array.Array {
	total := 0
	for _, p := range parts {
		total += p.Shape()[dim]
	}
	shape := parts[0].Shape().Clone()
	shape[dim] = total
	out := array.New(parts[0].DType(), shape...)
	size, off := out.DType().Size(), 0
	for _, p := range parts {
		each(p.Shape(), dim, off, total, func(box, whole int) {
			copy(out.Bytes()[whole*size:(whole+1)*size], p.Bytes()[box*size:])
		})
		off += p.Shape()[dim]
	}
	return out
}

// cut returns the part of x of the given size that begins at off along dim.
func cut(x array.Array, dim, off, n int) array.Array {
	shape := x.Shape().Clone()
	shape[dim] = n
	out := array.New(x.DType(), shape...)
	size := out.DType().Size()
	each(shape, dim, off, x.Shape()[dim], func(box, whole int) {
		copy(out.Bytes()[box*size:(box+1)*size], x.Bytes()[whole*size:])
	})
	return out
}

// parts cuts x along dim into the given sizes.
func parts(x array.Array, dim int, sizes []int) []array.Array {
	var out []array.Array
	off := 0
	for _, n := range sizes {
		out = append(out, cut(x, dim, off, n))
		off += n
	}
	return out
}

// same reports how got differs from want in type or bits.
func same(what string, got, want array.Array) error {
	if got.DType() != want.DType() || !got.Shape().Equal(want.Shape()) {
		return fmt.Errorf("%s: type: got %v%v, want %v%v", what, got.DType(), got.Shape(), want.DType(),
			want.Shape())
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
