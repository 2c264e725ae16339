package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// StateScan returns a state-space model along a sequence [Dao and Gu 2024]. For x [batch, seq, heads, dim],
// the logarithm of the decay a [batch, seq, heads], and b and c [batch, seq, groups, states], each of which
// serves heads/groups neighbouring heads, from a first state h [batch, heads, dim, states]:
//
//	h = exp(a)·h + x⊗b,  y = h·c
//
// It returns y of every position, in the shape of x, and the last h. Memory grows with the sequence:
// gradients keep the state of every chunk-th position and recompute those between.
func StateScan(x, a, b, c, first *Tensor, chunk int) (y, last *Tensor) {
	r := ir.Apply(stateScan{Chunk: chunk}, x, a, b, c, first)
	return r[0], r[1]
}

type stateScan struct{ Chunk int }

func (stateScan) Name() string       { return "state_scan" }
func (stateScan) NumResults(int) int { return 2 }

func (o stateScan) Infer(in []Type) ([]Type, error) {
	if len(in) != 5 {
		return nil, fmt.Errorf("want 5 operands: got %d", len(in))
	}
	if err := wantFloats(in, 5); err != nil {
		return nil, err
	}
	if o.Chunk < 1 {
		return nil, fmt.Errorf("chunk %d: want 1 or more", o.Chunk)
	}
	x, a, b, c, h := in[0].Shape, in[1].Shape, in[2].Shape, in[3].Shape, in[4].Shape
	if len(x) != 4 || len(b) != 4 || !b.Equal(c) || !a.Equal(x[:3]) || !b[:2].Equal(x[:2]) {
		return nil, fmt.Errorf("want [batch seq heads dim], [batch seq heads] and twice [batch seq groups "+
			"states]: "+
			"got %v, %v, %v and %v",
			in[0], in[1], in[2], in[3])
	}
	if b[2] == 0 && x[2] != 0 || b[2] != 0 && x[2]%b[2] != 0 {
		return nil, fmt.Errorf("%d heads of %v are not a multiple of the %d groups of %v",
			x[2], in[0], b[2], in[2])
	}
	if want := (array.Shape{x[0], x[2], x[3], b[3]}); !h.Equal(want) {
		return nil, fmt.Errorf("first state %v: want %v", in[4], want)
	}
	return []Type{in[0], in[4]}, nil
}

// Decompose returns the sum over pairs of positions within a chunk, and over pairs of chunks.
func (o stateScan) Decompose(in []*Tensor) []*Tensor {
	s := newScanParts(o.Chunk, in)
	states := s.states()
	y := Add(s.within(), s.across(Narrow(states, 1, 0, s.chunks)))
	y = Reshape(y, in[0].Dim(0), s.chunks*s.size, in[0].Dim(2), in[0].Dim(3))
	last := Reshape(Narrow(states, 1, s.chunks, s.chunks+1), in[4].Shape()...)
	return []*Tensor{Cast(Narrow(y, 1, 0, in[0].Dim(1)), in[0].DType()), Cast(last, in[4].DType())}
}

func (o stateScan) VJP(in, out, dout []*Tensor) []*Tensor {
	dy, dlast := dout[0], dout[1]
	if dy == nil {
		dy = ZerosLike(out[0])
	}
	if dlast == nil {
		dlast = ZerosLike(out[1])
	}
	return ir.Apply(stateScanGrad(o), append(in[:5:5], dy, dlast)...)
}

// scanWords returns the factors of x, a, b or c, and h in a rule. The sequence must not be split, because
// each state needs the one before it.
func scanWords(in []Type) (x, a, b, h, notes string) {
	heads := "g"
	if n, groups := in[0].Shape[2], in[2].Shape[2]; n != groups {
		heads, notes = "(gr)", fmt.Sprintf("; r=%d", n/max(1, groups))
	}
	return "bs*" + heads + "p", "bs*" + heads, "bs*gn", "b" + heads + "pn", notes
}

// Rule sums over parts of the states.
func (stateScan) Rule(in []Type) mesh.Rule {
	x, a, b, h, notes := scanWords(in)
	return mesh.Rule(x + "," + a + "," + b + "," + b + "," + h + "->" + x + "," + h + notes)
}

// Work counts, for the elements of all states, a product for the decay, one each for x⊗b and h·c, and the
// sums.
func (stateScan) Work(in, out []Type) Work {
	return Work{Flops: 5 * scanStates(in), Bytes: moved(in, out)}
}

// scanStates returns the number of elements in the states of all positions.
func scanStates(in []Type) float64 {
	return float64(in[0].Shape.Len()) * float64(in[2].Shape[3])
}

func (o stateScan) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runStateScan[float32](env, o, in, out) }, func() {
		runStateScan[float64](env, o,
			in, out)
	})
}

func runStateScan[T floats](env *Env, o stateScan, in, out []array.Array) {
	s := scanKernel[T](o, in)
	s.Forward(env.Pool, array.Data[T](out[0]), array.Data[T](out[1]))
}

func scanKernel[T floats](o stateScan, in []array.Array) *kernel.StateScan[T] {
	x, b := in[0].Shape(), in[2].Shape()
	return &kernel.StateScan[T]{
		Batch: x[0], Seq: x[1], Heads: x[2], Dim: x[3], Groups: b[2], States: b[3],
		Chunk: max(1, min(o.Chunk, x[1])),
		X:     array.Data[T](in[0]), A: array.Data[T](in[1]), B: array.Data[T](in[2]), C: array.Data[T](in[3]),
		First: array.Data[T](in[4]),
	}
}

func (o stateScan) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (stateScan) Samples() []Sample {
	return []Sample{
		{Op: stateScan{Chunk: 3}, In: scanSample(2, 7, 4, 2)},
		{Op: stateScan{Chunk: 4}, In: scanSample(1, 8, 3, 3)},
		{Op: stateScan{Chunk: 16}, In: scanSample(2, 5, 2, 1)},
	}
}

// scanSample returns operands with decays between 0 and 1.
func scanSample(batch, seq, heads, groups int) []Arg {
	const dim, states = 3, 5
	return []Arg{
		f32(batch, seq, heads, dim), f32In(-2, -0.05, batch, seq, heads), f32(batch, seq, groups, states),
		f32(batch, seq, groups, states), f32(batch, heads, dim, states),
	}
}
