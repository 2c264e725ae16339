package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// DeltaScan returns linear attention with the generalised delta rule [Peng et al. 2025], the recurrence of
// RWKV-7; gated linear attention and (gated) delta networks are special cases. For r, the logarithm w of the
// decay, k, a and b [batch, seq, heads, states] and v [batch, seq, heads, dim], from a first state h [batch,
// heads, dim, states]:
//
//	h = h·diag(exp(w)) + (h·a)⊗b + v⊗k,  y = h·r
//
// It returns y of every position, in the shape of v, and the last h. Memory grows with the sequence:
// gradients keep the state of every chunk-th position and recompute those between.
func DeltaScan(r, w, k, v, a, b, first *Tensor, chunk int) (y, last *Tensor) {
	out := ir.Apply(deltaScan{Chunk: chunk}, r, w, k, v, a, b, first)
	return out[0], out[1]
}

type deltaScan struct{ Chunk int }

func (deltaScan) Name() string       { return "delta_scan" }
func (deltaScan) NumResults(int) int { return 2 }

func (o deltaScan) Infer(in []Type) ([]Type, error) {
	if len(in) != 7 {
		return nil, fmt.Errorf("want 7 operands: got %d", len(in))
	}
	if err := wantFloats(in, 7); err != nil {
		return nil, err
	}
	if o.Chunk < 1 {
		return nil, fmt.Errorf("chunk %d: want 1 or more", o.Chunk)
	}
	r, v, h := in[0].Shape, in[3].Shape, in[6].Shape
	if len(r) != 4 || len(v) != 4 || !v[:3].Equal(r[:3]) {
		return nil, fmt.Errorf("want r [batch seq heads states] and v [batch seq heads dim]: got %v and %v",
			in[0], in[3])
	}
	for _, i := range []int{1, 2, 4, 5} {
		if !in[i].Shape.Equal(r) {
			return nil, fmt.Errorf("operand %d: got %v, want the shape of the first, %v", i, in[i], in[0])
		}
	}
	if want := (array.Shape{r[0], r[2], v[3], r[3]}); !h.Equal(want) {
		return nil, fmt.Errorf("first state %v: want %v", in[6], want)
	}
	return []Type{in[3], in[6]}, nil
}

// Decompose computes products within chunks, for all chunks at once, and passes the state from chunk to
// chunk.
func (o deltaScan) Decompose(in []*Tensor) []*Tensor {
	s := newDeltaParts(o.Chunk, in)
	y, last := s.run()
	y = Reshape(y, in[3].Dim(0), s.chunks*s.size, in[3].Dim(2), in[3].Dim(3))
	return []*Tensor{Cast(Narrow(y, 1, 0, in[3].Dim(1)), in[3].DType()), Cast(last, in[6].DType())}
}

func (o deltaScan) VJP(in, out, dout []*Tensor) []*Tensor {
	dy, dlast := dout[0], dout[1]
	if dy == nil {
		dy = ZerosLike(out[0])
	}
	if dlast == nil {
		dlast = ZerosLike(out[1])
	}
	return ir.Apply(deltaScanGrad(o), append(in[:7:7], dy, dlast)...)
}

// deltaWords holds the operands' factors in a rule. The sequence and the states must not be split: each state
// needs the one before it, and all of its columns.
const deltaWords = "bs*hn*,bs*hn*,bs*hn*,bs*hp,bs*hn*,bs*hn*,bhpn*"

func (deltaScan) Rule([]Type) mesh.Rule { return mesh.Rule(deltaWords + "->bs*hp,bhpn*") }

// Work counts, for each element of all states, the decay, three multiply-adds and two sums.
func (deltaScan) Work(in, out []Type) Work {
	return Work{Flops: 9 * deltaStates(in), Bytes: moved(in, out)}
}

// deltaStates returns the number of elements in the states of all positions.
func deltaStates(in []Type) float64 {
	return float64(in[3].Shape.Len()) * float64(in[0].Shape[3])
}

func (o deltaScan) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runDeltaScan[float32](env, o, in, out) },
		func() { runDeltaScan[float64](env, o, in, out) })
}

func runDeltaScan[T floats](env *Env, o deltaScan, in, out []array.Array) {
	deltaKernel[T](o, in).Forward(env.Pool, array.Data[T](out[0]), array.Data[T](out[1]))
}

func deltaKernel[T floats](o deltaScan, in []array.Array) *kernel.DeltaScan[T] {
	v, at := in[3].Shape(), func(i int) []T { return array.Data[T](in[i]) }
	return &kernel.DeltaScan[T]{
		Batch: v[0], Seq: v[1], Heads: v[2], Dim: v[3], States: in[0].Shape()[3], Chunk: max(1, min(o.Chunk, v[1])),
		R: at(0), W: at(1), K: at(2), V: at(3), A: at(4), B: at(5), First: at(6),
	}
}

func (o deltaScan) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (deltaScan) Samples() []Sample {
	return []Sample{
		{Op: deltaScan{Chunk: 3}, In: deltaSample(2, 7, 2)},
		{Op: deltaScan{Chunk: 4}, In: deltaSample(1, 8, 4)},
		{Op: deltaScan{Chunk: 16}, In: deltaSample(2, 5, 2)},
	}
}

// deltaSample returns operands with decays between 0 and 1 and small removals.
func deltaSample(batch, seq, heads int) []Arg {
	const dim, states = 4, 5
	row := func() Arg { return f32(batch, seq, heads, states) }
	small := func() Arg { return f32In(-0.4, 0.4, batch, seq, heads, states) }
	return []Arg{
		row(), f32In(-2, -0.05, batch, seq, heads, states), row(), f32(batch, seq, heads, dim), small(), small(),
		f32(batch, heads, dim, states),
	}
}
