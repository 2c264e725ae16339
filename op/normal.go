package op

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Normal returns random numbers with a standard normal distribution.
func Normal(s Scope, key Key, dtype array.DType, shape array.Shape) *Tensor {
	return s.Apply(newNormal(key, dtype, shape), nil)[0]
}

// NormalAt is like Normal with new numbers at each step, an i64 scalar; step 0 gives those of Normal.
func NormalAt(step *Tensor, key Key, dtype array.DType, shape array.Shape) *Tensor {
	return apply1(newNormal(key, dtype, shape), step)
}

func newNormal(key Key, dtype array.DType, shape array.Shape) normal {
	return normal{Seed: key.Seed, Stream: key.Stream, DType: dtype, Shape: shape}
}

type normal struct {
	draw
	Seed, Stream uint64
	DType        array.DType
	Shape        []int
	// Whole is the shape of the tensor of which this op makes a part, and Start where the part begins; empty
	// means all of it.
	Whole, Start []int
}

func (normal) Name() string { return "normal" }

func (o normal) Infer(in []Type) ([]Type, error) { return inferFloatDraw(in, o.DType, o.part()) }

func (o normal) Rule([]Type) mesh.Rule { return drawRule(o.Shape) }

func (o normal) part() drawPart { return drawPart{o.Shape, o.Whole, o.Start} }

func (o normal) Localize(at *Place) (Op, error) {
	p := o.part().at(at)
	o.Shape, o.Whole, o.Start = p.shape, p.whole, p.start
	return o, nil
}

func (o normal) Eval(env *Env, in, out []array.Array) {
	key := drawKey(Key{o.Seed, o.Stream}, in)
	float(out[0],
		func() { drawFloats(env, out[0], o.part(), key, kernel.NormalAt[float32]) },
		func() { drawFloats(env, out[0], o.part(), key, kernel.NormalAt[float64]) })
}

func (o normal) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitDraw(w, Key{o.Seed, o.Stream}, in, o.part(), out[0], func(d drawing) [4]hlo.Ref {
		z := d.uniform64()
		for i := 0; i < 4; i += 2 {
			t := z[i].Type
			rest := w.Op("subtract", "", t, w.Constant(t, 1), z[i])
			r := w.Op("sqrt", "", t, d.op("multiply", w.Op("log", "", t, rest), w.Constant(t, -2)))
			angle := d.op("multiply", z[i+1], w.Constant(t, 2*math.Pi))
			z[i], z[i+1] = d.op("multiply", r, w.Op("cosine", "", t, angle)), d.op("multiply", r,
				w.Op("sine", "", t, angle))
		}
		for i := range z {
			z[i] = w.Convert(z[i], o.DType.Compute())
		}
		return z
	})
}

func (normal) Samples() []Sample {
	return []Sample{
		{Op: normal{Seed: 1, Stream: 2, DType: array.F32, Shape: []int{5, 7}}},
		{Op: normal{Seed: 1, DType: array.F64, Shape: []int{5, 7}}, In: []Arg{stepArg()}},
		{Op: normal{Stream: 9, DType: array.F16, Shape: []int{300, 40}}},
		{Op: normal{Seed: 1, Stream: 2, DType: array.F32, Shape: []int{2, 3}, Whole: []int{5, 7},
			Start: []int{3, 4}}},
	}
}
