package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// Key names a sequence of random numbers. An element of a random tensor depends only on the key, the step if
// there is one, and the element's row-major index: never on threads or on how the tensor is split.
type Key struct {
	// Seed is that of the run; Stream distinguishes the tensors of a run.
	Seed, Stream uint64
}

// at returns the generator's key at a step.
func (k Key) at(step uint64) uint64 {
	h := mix64(k.Seed)
	h = mix64(h ^ k.Stream)
	return mix64(h ^ step)
}

// mix64 is a bijection that spreads every bit of its argument over the result. [Steele, Lea and Flood 2014,
// SplitMix64]
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw is embedded by ops that make random tensors. They have no operand, which means step 0, or the step as
// an i64 scalar, so that a compiled program makes new numbers each time it runs.
type draw struct{}

func (draw) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }
func (draw) NoGradient() string               { return "it does not depend on a float" }

// drawFlops is the approximate cost per element of ten Philox rounds.
const drawFlops = 25

func (draw) Work(in, out []Type) Work {
	return Work{Flops: drawFlops * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

func inferDraw(in []Type, dtype array.DType, p drawPart) ([]Type, error) {
	if len(in) > 1 {
		return nil, fmt.Errorf("want the step or no operand: got %d operands", len(in))
	}
	if len(in) == 1 && !in[0].Equal(Type{DType: array.I64}) {
		return nil, fmt.Errorf("want the step as an i64 scalar: got %v", in[0])
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return inferSource(nil, dtype, p.shape)
}

// inferFloatDraw is like inferDraw for float dtypes only.
func inferFloatDraw(in []Type, dtype array.DType, p drawPart) ([]Type, error) {
	if dtype != array.Invalid && !dtype.IsFloat() {
		return nil, fmt.Errorf("want a float dtype: got %v", dtype)
	}
	return inferDraw(in, dtype, p)
}

// drawRule lets every dim be split, because a shard knows its position in the tensor.
func drawRule(shape array.Shape) mesh.Rule { return mesh.Rule("->" + factors(0, len(shape))) }

// drawPart is the part of a random tensor that an op makes: shape elements from start on, of a tensor of
// shape whole. An empty whole means all of it.
type drawPart struct{ shape, whole, start array.Shape }

func (p drawPart) check() error {
	if len(p.whole) == 0 && len(p.start) == 0 {
		return nil
	}
	ok := len(p.whole) == len(p.shape) && len(p.start) == len(p.shape) && p.whole.Valid()
	for d := range p.shape {
		ok = ok && p.start[d] >= 0 && p.shape[d] >= 0 && p.start[d] <= p.whole[d]-p.shape[d]
	}
	if !ok {
		return fmt.Errorf("%v from %v on is no part of %v", p.shape, p.start, p.whole)
	}
	return nil
}

// at returns a device's shard of the part.
func (p drawPart) at(place *Place) drawPart {
	starts := place.Starts(0)
	if len(p.whole) == 0 {
		return drawPart{place.OutShape(0), p.shape, starts}
	}
	for d := range starts {
		starts[d] += p.start[d]
	}
	return drawPart{place.OutShape(0), p.whole, starts}
}

// fill calls f for consecutive pieces of elements lo to hi that are contiguous in the whole tensor, with the
// index of each piece's first element there.
func (p drawPart) fill(lo, hi int, f func(lo, hi int, index uint64)) {
	if len(p.whole) == 0 {
		f(lo, hi, uint64(lo))
		return
	}
	run, outer := 1, len(p.shape) // contiguous elements, and the dims around them
	for outer > 0 && run == p.whole[outer:].Len() {
		outer--
		run *= p.shape[outer]
	}
	strides := p.whole.Strides()
	for lo < hi {
		index, row := lo%run, lo/run
		n := min(run-index, hi-lo)
		for d := len(p.shape) - 1; d >= 0; d-- {
			index += p.start[d] * strides[d]
			if d < outer {
				index += row % p.shape[d] * strides[d]
				row /= p.shape[d]
			}
		}
		f(lo, lo+n, uint64(index))
		lo += n
	}
}

// drawKey returns the generator's key at the step that the operand holds, if there is one.
func drawKey(k Key, in []array.Array) uint64 {
	if len(in) == 0 {
		return k.at(0)
	}
	return k.at(uint64(array.Data[int64](in[0])[0]))
}

// drawFloats fills out with a kernel that takes a key and the index of the first element.
func drawFloats[T floats](env *Env, out array.Array, p drawPart, key uint64,
	fill func(dst []T, key, start uint64)) {
	dst := array.Data[T](out)
	env.split(len(dst), func(lo, hi int) {
		p.fill(lo, hi, func(lo, hi int, index uint64) { fill(dst[lo:hi], key, index) })
	})
}

// stepArg returns a sample of the step operand.
func stepArg() Arg { return Arg{Type: Type{DType: array.I64}, High: 9} }
