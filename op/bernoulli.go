package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Bernoulli returns ones with the given probability and zeros otherwise. The positions of the ones do not
// depend on the dtype.
func Bernoulli(s Scope, key Key, probability float64, dtype array.DType, shape array.Shape) *Tensor {
	return s.Apply(newBernoulli(key, probability, dtype, shape), nil)[0]
}

// BernoulliAt is like Bernoulli with new numbers at each step, an i64 scalar; step 0 gives those of
// Bernoulli.
func BernoulliAt(step *Tensor, key Key, probability float64, dtype array.DType, shape array.Shape) *Tensor {
	return apply1(newBernoulli(key, probability, dtype, shape), step)
}

func newBernoulli(key Key, probability float64, dtype array.DType, shape array.Shape) bernoulli {
	return bernoulli{Seed: key.Seed, Stream: key.Stream, Probability: probability, DType: dtype, Shape: shape}
}

type bernoulli struct {
	draw
	Seed, Stream uint64
	Probability  float64
	DType        array.DType
	Shape        []int
	// Whole is the shape of the tensor of which this op makes a part, and Start where the part begins; empty
	// means all of it.
	Whole, Start []int
}

func (bernoulli) Name() string { return "bernoulli" }

func (o bernoulli) Infer(in []Type) ([]Type, error) {
	if !(0 <= o.Probability && o.Probability <= 1) {
		return nil, fmt.Errorf("probability is %g: want a number between 0 and 1", o.Probability)
	}
	return inferDraw(in, o.DType, o.part())
}

func (o bernoulli) Rule([]Type) mesh.Rule { return drawRule(o.Shape) }

func (o bernoulli) part() drawPart { return drawPart{o.Shape, o.Whole, o.Start} }

func (o bernoulli) Localize(at *Place) (Op, error) {
	p := o.part().at(at)
	o.Shape, o.Whole, o.Start = p.shape, p.whole, p.start
	return o, nil
}

// drawPiece is the number of draws that are compared at once; they fit the first-level cache.
const drawPiece = 1 << 10

func (o bernoulli) Eval(env *Env, in, out []array.Array) {
	key, p := drawKey(Key{o.Seed, o.Stream}, in), float32(o.Probability)
	env.split(out[0].Len(), func(lo, hi int) {
		var draws [drawPiece]float32
		var hits [drawPiece]uint8
		o.part().fill(lo, hi, func(lo, hi int, index uint64) {
			for ; lo < hi; lo, index = lo+drawPiece, index+drawPiece {
				n := min(drawPiece, hi-lo)
				kernel.UniformAt(draws[:n], key, index)
				for i, u := range draws[:n] {
					hits[i] = bit(u < p)
				}
				castTo(out[0], hits[:n], lo)
			}
		})
	})
}

func (o bernoulli) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitDraw(w, Key{o.Seed, o.Stream}, in, o.part(), out[0], func(d drawing) [4]hlo.Ref {
		draws := d.uniform32()
		for i, u := range draws {
			draws[i] = w.Compare("LT", u, w.Constant(u.Type, o.Probability))
		}
		return draws
	})
}

func (bernoulli) Samples() []Sample {
	return []Sample{
		{Op: bernoulli{Seed: 1, Probability: 0.3, DType: array.Bool, Shape: []int{5, 7}}},
		{Op: bernoulli{Stream: 1, Probability: 0.9, DType: array.F32, Shape: []int{300, 40}}, In: []Arg{stepArg()}},
		{Op: bernoulli{Seed: 1, Probability: 0.3, DType: array.Bool, Shape: []int{2, 7}, Whole: []int{5, 7},
			Start: []int{3, 0}}},
	}
}
