package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// Uniform returns random numbers, uniformly distributed in [0, 1).
func Uniform(s Scope, key Key, dtype array.DType, shape array.Shape) *Tensor {
	return s.Apply(newUniform(key, dtype, shape), nil)[0]
}

// UniformAt is like Uniform with new numbers at each step, an i64 scalar; step 0 gives those of Uniform.
func UniformAt(step *Tensor, key Key, dtype array.DType, shape array.Shape) *Tensor {
	return apply1(newUniform(key, dtype, shape), step)
}

func newUniform(key Key, dtype array.DType, shape array.Shape) uniform {
	return uniform{Seed: key.Seed, Stream: key.Stream, DType: dtype, Shape: shape}
}

type uniform struct {
	draw
	Seed, Stream uint64
	DType        array.DType
	Shape        []int
	// Whole is the shape of the tensor of which this op makes a part, and Start where the part begins; empty
	// means all of it.
	Whole, Start []int
}

func (uniform) Name() string { return "uniform" }

func (o uniform) Infer(in []Type) ([]Type, error) { return inferFloatDraw(in, o.DType, o.part()) }

func (o uniform) Rule([]Type) mesh.Rule { return drawRule(o.Shape) }

func (o uniform) part() drawPart { return drawPart{o.Shape, o.Whole, o.Start} }

func (o uniform) Localize(at *Place) (Op, error) {
	p := o.part().at(at)
	o.Shape, o.Whole, o.Start = p.shape, p.whole, p.start
	return o, nil
}

func (o uniform) Eval(env *Env, in, out []array.Array) {
	key := drawKey(Key{o.Seed, o.Stream}, in)
	float(out[0],
		func() { drawFloats(env, out[0], o.part(), key, o.below(kernel.UniformAt[float32])) },
		func() { drawFloats(env, out[0], o.part(), key, kernel.UniformAt[float64]) })
}

// top returns the largest draw that is not rounded up to 1 when it is stored in 16 bits; 0 if it is not
// rounded.
func (o uniform) top() float64 {
	switch o.DType {
	case array.BF16:
		return 1 - 1.0/(1<<8)
	case array.F16:
		return 1 - 1.0/(1<<11)
	}
	return 0
}

// below keeps draws that will be stored in 16 bits from being rounded up to 1.
func (o uniform) below(fill func(dst []float32, key, start uint64)) func(dst []float32, key, start uint64) {
	top := float32(o.top())
	if top == 0 {
		return fill
	}
	return func(dst []float32, key, start uint64) {
		fill(dst, key, start)
		for i, u := range dst {
			dst[i] = min(u, top)
		}
	}
}

func (o uniform) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitDraw(w, Key{o.Seed, o.Stream}, in, o.part(), out[0], func(d drawing) [4]hlo.Ref {
		if o.DType == array.F64 {
			return d.uniform64()
		}
		draws := d.uniform32()
		if top := o.top(); top != 0 {
			for i, u := range draws {
				draws[i] = d.op("minimum", u, w.Constant(u.Type, top))
			}
		}
		return draws
	})
}

func (uniform) Samples() []Sample {
	return []Sample{
		{Op: uniform{Seed: 1, Stream: 2, DType: array.F32, Shape: []int{5, 7}}},
		{Op: uniform{Seed: 1, DType: array.F64, Shape: []int{5, 7}}, In: []Arg{stepArg()}},
		{Op: uniform{Seed: 1 << 63, Stream: 9, DType: array.BF16, Shape: []int{300, 40}}},
		{Op: uniform{Seed: 1, Stream: 2, DType: array.F32, Shape: []int{2, 3}, Whole: []int{5, 7},
			Start: []int{3, 4}}},
	}
}
