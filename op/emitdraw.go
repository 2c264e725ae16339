package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Philox is written in signed 64-bit arithmetic: the product of two 32-bit words has the same bits there, and
// a logical shift extracts its upper half.
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85
	lowWord            = 1<<32 - 1
)

// drawing writes random numbers, four words per block, equal to those of the CPU kernels.
type drawing struct {
	w *hlo.Writer
	// key is the generator's key, an i64 scalar; block holds the numbers of the blocks.
	key, block hlo.Ref
	// looped writes the rounds as a loop: a small program, for numbers that are drawn only once. Otherwise they
	// are unrolled, which XLA fuses into one kernel.
	looped bool
}

func (d drawing) op(name string, x, y hlo.Ref) hlo.Ref {
	if len(y.Shape) < len(x.Shape) {
		y = d.w.Broadcast(y, x.Shape, nil)
	}
	return d.w.Op(name, "", x.Type, x, y)
}

func (d drawing) with(name string, x hlo.Ref, y int64) hlo.Ref {
	return d.w.Op(name, "", x.Type, x, d.w.Int64(x.Shape, y))
}

func (d drawing) low(x hlo.Ref) hlo.Ref  { return d.with("and", x, lowWord) }
func (d drawing) high(x hlo.Ref) hlo.Ref { return d.with("shift_right_logical", x, 32) }

// emitKey writes the generator's key at the step, if there is one. A constant key is hidden from the kernels,
// so that tensors of one shape share them.
func emitKey(w *hlo.Writer, k Key, in []hlo.Ref) hlo.Ref {
	if len(in) == 0 {
		key := w.Int64(nil, int64(k.at(0)))
		return w.Op("optimization_barrier", "", key.Type, key)
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

// words writes the four words of every block for the given number of values of the counter's third word,
// which become a new first dim.
func (d drawing) words(thirds int) [4]hlo.Ref {
	t := hlo.Type{DType: array.I64, Shape: append(array.Shape{thirds}, d.block.Shape...)}
	block := d.w.Broadcast(d.block, t.Shape, dimsExcept(len(t.Shape), 0, 1))
	c := [4]hlo.Ref{d.low(block), d.high(block), emitIota(d.w, t, 0), d.w.Int64(t.Shape, 0)}
	k := [2]hlo.Ref{d.low(d.key), d.high(d.key)}
	if d.looped {
		return d.loop(c, k)
	}
	for range 10 {
		c, k = d.round(c, k)
	}
	return c
}

// round writes one of Philox's ten rounds.
func (d drawing) round(c [4]hlo.Ref, k [2]hlo.Ref) ([4]hlo.Ref, [2]hlo.Ref) {
	p0, p1 := d.with("multiply", c[0], philoxM0), d.with("multiply", c[2], philoxM1)
	return [4]hlo.Ref{
		d.op("xor", d.op("xor", d.high(p1), c[1]), k[0]), d.low(p1),
		d.op("xor", d.op("xor", d.high(p0), c[3]), k[1]), d.low(p0),
	}, [2]hlo.Ref{d.low(d.with("add", k[0], philoxW0)), d.low(d.with("add", k[1], philoxW1))}
}

// loop writes the ten rounds as a loop. Words are carried in 32 bits.
func (d drawing) loop(c [4]hlo.Ref, k [2]hlo.Ref) [4]hlo.Ref {
	w := d.w
	wide := func(x hlo.Ref) hlo.Ref { return d.low(w.Convert(x, array.I64)) }
	state := []hlo.Ref{w.Constant(hlo.Type{DType: array.I32}, 0), k[0], k[1]}
	for _, x := range c {
		state = append(state, w.Convert(x, array.I32))
	}
	r := w.While(10, state, func(in []hlo.Ref) []hlo.Ref {
		c, k := d.round([4]hlo.Ref{wide(in[3]), wide(in[4]), wide(in[5]), wide(in[6])}, [2]hlo.Ref{in[1], in[2]})
		out := k[:]
		for _, x := range c {
			out = append(out, w.Convert(x, array.I32))
		}
		return out
	})
	for i := range c {
		c[i] = wide(r[3+i])
	}
	return c
}

// third slices the words of one value of the counter's third word.
func (d drawing) third(x hlo.Ref, i int) hlo.Ref {
	return d.w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: x.Shape[1:]},
		emitNarrow(d.w, x, 0, span{i, i + 1}))
}

// uniform32 returns words as float32 draws.
func (d drawing) uniform32() [4]hlo.Ref {
	words := d.words(1)
	for i, x := range words {
		u := d.w.Convert(d.with("shift_right_logical", d.third(x, 0), 8), array.F32)
		words[i] = d.op("multiply", u, d.w.Constant(u.Type, 1.0/(1<<24)))
	}
	return words
}

// uniform64 returns pairs of words as float64 draws.
func (d drawing) uniform64() [4]hlo.Ref {
	words := d.words(2)
	for i, x := range words {
		bits := d.op("or", d.with("shift_left", d.third(x, 0), 32), d.third(x, 1))
		u := d.w.Convert(d.with("shift_right_logical", bits, 11), array.F64)
		words[i] = d.op("multiply", u, d.w.Constant(u.Type, 1.0/(1<<53)))
	}
	return words
}

// emitDraw writes a random tensor, or a part of one: f maps the draws of a block to four neighbouring
// elements. in holds the step, if the tensor has one.
func emitDraw(w *hlo.Writer, k Key, in []hlo.Ref, p drawPart, out Type,
	f func(d drawing) [4]hlo.Ref) []hlo.Ref {
	if out.Shape.Len() == 0 {
		return []hlo.Ref{w.Constant(hloType(out), 0)}
	}
	d := drawing{w: w, key: emitKey(w, k, in), looped: len(in) == 0}
	if len(p.whole) == 0 {
		return []hlo.Ref{d.blocks(out, f)}
	}
	t := hlo.Type{DType: array.I64, Shape: out.Shape}
	index := w.Int64(t.Shape, 0)
	for dim, stride := range p.whole.Strides() {
		at := d.with("add", emitIota(w, t, dim), int64(p.start[dim]))
		index = d.op("add", index, d.with("multiply", at, int64(stride)))
	}
	d.block = d.with("shift_right_logical", index, 2)
	lane, values := d.with("and", index, 3), f(d)
	y := values[0]
	for i := 1; i < 4; i++ {
		y = w.Op("select", "", y.Type, w.Compare("EQ", lane, w.Int64(t.Shape, int64(i))), values[i], y)
	}
	return []hlo.Ref{w.Convert(y, out.DType)}
}

// blocks draws whole blocks and interleaves their four numbers.
func (d drawing) blocks(out Type, f func(d drawing) [4]hlo.Ref) hlo.Ref {
	n, w := out.Shape.Len(), d.w
	blocks := (n + 3) / 4
	d.block = emitIota(w, hlo.Type{DType: array.I64, Shape: array.Shape{blocks}}, 0)
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
