package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// halfNative is implemented by ops whose Eval reads 16-bit numbers itself. Other ops see floats as float32
// and integers as int32.
type halfNative interface{ halfNative() }

// Run evaluates o on the CPU. Backends call it instead of Eval: it widens 16-bit numbers to 32 bits for ops
// that do not read them themselves, and narrows the results, so that sums are always computed in 32 bits.
func Run(env *Env, o Op, in, out []array.Array) {
	if _, ok := o.(halfNative); ok || !slices.ContainsFunc(in, isNarrow) && !slices.ContainsFunc(out, isNarrow) {
		o.Eval(env, in, out)
		return
	}
	wideIn, wideOut := make([]array.Array, len(in)), make([]array.Array, len(out))
	for i, a := range in {
		wideIn[i] = widen(env, a)
	}
	for i, a := range out {
		wideOut[i] = a
		if isNarrow(a) {
			wideOut[i] = array.New(a.DType().Compute(), a.Shape()...)
		}
	}
	o.Eval(env, wideIn, wideOut)
	for i, a := range out {
		if isNarrow(a) {
			castInto(env, a, wideOut[i])
		}
	}
}

// isNarrow reports whether a's numbers are stored in fewer bits than they are computed in.
func isNarrow(a array.Array) bool { return a.DType().Compute() != a.DType() }

// widen returns a in 32 bits if it is stored in 16, else a itself.
func widen(env *Env, a array.Array) array.Array {
	if !isNarrow(a) {
		return a
	}
	w := array.New(a.DType().Compute(), a.Shape()...)
	castInto(env, w, a)
	return w
}

// grain is the number of elements that make a task for another thread worthwhile.
const grain = 1 << 13

// split runs f over [0,n) in pieces of grain.
func (env *Env) split(n int, f func(lo, hi int)) { env.Pool.For(n, grain, f) }

// rows runs f over n rows of width elements each, several rows per task.
func (env *Env) rows(n, width int, f func(lo, hi int)) {
	env.Pool.For(n, max(1, grain/max(width, 1)), f)
}

// float runs one of two kernels depending on the dtype of a.
func float(a array.Array, f32, f64 func()) {
	switch a.DType() {
	case array.F32:
		f32()
	case array.F64:
		f64()
	default:
		panic("op: kernel of a float op on " + a.DType().String())
	}
}

type floats = kernel.Float
