package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Philox is written in signed 64-bit arithmetic: the product of two 32-bit words has the same bits there, and a logical shift
// takes its upper half.
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	lowWord            = 1<<32 - 1
)

// drawing writes random numbers: four words a block, as the CPU's kernels draw them.
type drawing struct {
	w *hlo.Writer
	// t is the type of a vector of blocks' numbers.
	t hlo.Type
	// key is the generator's key, an i64 scalar.
	key   hlo.Ref
	block hlo.Ref
}

func (d drawing) op(name string, x, y hlo.Ref) hlo.Ref {
	if len(y.Shape) < len(x.Shape) {
		y = d.w.Broadcast(y, x.Shape, nil)
	}
	return d.w.Op(name, "", x.Type, x, y)
}

func (d drawing) with(name string, x hlo.Ref, y int64) hlo.Ref { return d.op(name, x, d.w.Int64(y)) }

// emitKey writes the key of the generator at the step, if there is one.
func emitKey(w *hlo.Writer, k Key, in []hlo.Ref) hlo.Ref {
	if len(in) == 0 {
		return w.Int64(int64(k.at(0)))
	}
	d := drawing{w: w}
	base := mix64(mix64(k.Seed) ^ k.Stream)
	x := d.with("xor", in[0], int64(base))
	golden, m1, m2 := uint64(0x9e3779b97f4a7c15), uint64(0xbf58476d1ce4e5b9), uint64(0x94d049bb133111eb)
	x = d.with("add", x, int64(golden))
	x = d.with("multiply", d.op("xor", x, d.with("shift_right_logical", x, 30)), int64(m1))
	x = d.with("multiply", d.op("xor", x, d.with("shift_right_logical", x, 27)), int64(m2))
	return d.op("xor", x, d.with("shift_right_logical", x, 31))
}

// words writes the four words of every block; which is the counter's third word.
func (d drawing) words(which int64) [4]hlo.Ref {
	low := func(x hlo.Ref) hlo.Ref { return d.with("and", x, lowWord) }
	high := func(x hlo.Ref) hlo.Ref { return d.with("shift_right_logical", x, 32) }
	c := [4]hlo.Ref{low(d.block), high(d.block), d.with("and", d.block, 0), d.with("and", d.block, 0)}
	if which != 0 {
		c[2] = d.with("or", c[2], which)
	}
	k0, k1 := low(d.key), high(d.key)
	for range 10 {
		p0, p1 := d.with("multiply", c[0], philoxM0), d.with("multiply", c[2], philoxM1)
		c = [4]hlo.Ref{
			d.op("xor", d.op("xor", high(p1), c[1]), k0), low(p1),
			d.op("xor", d.op("xor", high(p0), c[3]), k1), low(p0),
		}
		k0, k1 = low(d.with("add", k0, philoxW0)), low(d.with("add", k1, philoxW1))
	}
	return c
}

// uniform32 is words as float32 draws.
func (d drawing) uniform32() [4]hlo.Ref {
	words := d.words(0)
	for i, x := range words {
		u := d.w.Convert(d.with("shift_right_logical", x, 8), array.F32)
		words[i] = d.op("multiply", u, d.w.Constant(hlo.Type{DType: array.F32}, 1.0/(1<<24)))
	}
	return words
}

// uniform64 is pairs of words as float64 draws.
func (d drawing) uniform64() [4]hlo.Ref {
	high, low := d.words(0), d.words(1)
	for i := range high {
		bits := d.op("or", d.with("shift_left", high[i], 32), low[i])
		u := d.w.Convert(d.with("shift_right_logical", bits, 11), array.F64)
		high[i] = d.op("multiply", u, d.w.Constant(hlo.Type{DType: array.F64}, 1.0/(1<<53)))
	}
	return high
}

// emitDraw writes a random tensor, or a part of one, of what f makes of four neighbouring elements' draws.
func emitDraw(w *hlo.Writer, key hlo.Ref, p drawPart, out Type, f func(d drawing) [4]hlo.Ref) []hlo.Ref {
	switch {
	case out.Shape.Len() == 0:
		return []hlo.Ref{w.Constant(hloType(out), 0)}
	case len(p.whole) == 0:
		return []hlo.Ref{emitBlocksOf(w, key, out, f)}
	}
	t := hlo.Type{DType: array.I64, Shape: out.Shape}
	d := drawing{w: w, t: t, key: key}
	index := w.Constant(t, 0)
	for dim, stride := range p.whole.Strides() {
		at := d.with("add", emitIota(w, t, dim), int64(p.start[dim]))
		index = d.op("add", index, d.with("multiply", at, int64(stride)))
	}
	d.block = d.with("shift_right_logical", index, 2)
	lane, values := d.with("and", index, 3), f(d)
	y := values[0]
	for i := 1; i < 4; i++ {
		here := w.Compare("EQ", lane, w.Constant(t, float64(i)))
		y = w.Op("select", "", y.Type, here, values[i], y)
	}
	return []hlo.Ref{w.Convert(y, out.DType)}
}

// emitBlocksOf draws whole blocks and lays their four numbers side by side.
func emitBlocksOf(w *hlo.Writer, key hlo.Ref, out Type, f func(d drawing) [4]hlo.Ref) hlo.Ref {
	n := out.Shape.Len()
	blocks := (n + 3) / 4
	d := drawing{w: w, t: hlo.Type{DType: array.I64, Shape: array.Shape{blocks}}, key: key}
	d.block = emitIota(w, d.t, 0)
	var columns []hlo.Ref
	for _, x := range f(d) {
		columns = append(columns, w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: array.Shape{blocks, 1}}, x))
	}
	dtype := columns[0].DType
	y := emitJoin(w, columns, 1, Type{DType: dtype, Shape: array.Shape{blocks, 4}})
	y = w.Op("reshape", "", hlo.Type{DType: dtype, Shape: array.Shape{4 * blocks}}, y)
	y = emitNarrow(w, y, 0, span{0, n})
	return w.Convert(w.Op("reshape", "", hlo.Type{DType: dtype, Shape: out.Shape}, y), out.DType)
}
