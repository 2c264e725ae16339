package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Eval runs the trips one after the other. Rows are read and written in place; carried values alternate
// between two buffers.
func (o scan) Eval(env *Env, in, out []array.Array) {
	types := typesOfArrays(in)
	b, n := mustBodyOf(o.Body, o.bodyTypes(types)[0]), o.Trips(types)
	memory, restore := env.borrow(b.bytes + carriedBytes(types[:o.Carry]))
	defer restore()
	now, next, memory := carriedIn(env, memory, in[:o.Carry], o.Start)
	given := len(b.f.Results())
	args, results := slices.Clone(in), make([]array.Array, given)
	for k := range n {
		i := k
		if o.Reverse {
			i = n - 1 - k
		}
		copy(args, now)
		for j := o.Carry; j < o.Carry+o.Xs; j++ {
			args[j] = tripRow(in[j], i)
		}
		if o.Save {
			for j, a := range now {
				copyBytes(env, tripRow(out[given+j], i), a)
			}
		}
		copy(results, next)
		for j := o.Carry; j < given; j++ {
			results[j] = tripRow(out[j], i)
		}
		b.run(env, memory, args, results)
		now, next = next, now
	}
	for j, a := range now {
		copyBytes(env, out[j], a)
	}
	zeroAll(out, o.Zero)
}

// tripRow returns row i of an array, without copying.
func tripRow(a array.Array, i int) array.Array {
	shape := a.Shape()[1:]
	size := shape.Len() * a.DType().Size()
	return array.View(a.DType(), shape, a.Bytes()[i*size:(i+1)*size])
}

// carriedIn returns two buffers for the carried values; the first one holds the initial values: zeros if
// these begin on another device.
func carriedIn(env *Env, memory []byte, init []array.Array, zero []int) (now, next []array.Array,
	rest []byte) {
	now, memory = carve(memory, init)
	next, memory = carve(memory, init)
	for i, a := range init {
		copyBytes(env, now[i], a)
	}
	zeroAll(now, zero)
	return now, next, memory
}

// Emit writes a loop of known length that slices rows from operands and writes rows into results.
func (o scan) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	types := typesOfRefs(in)
	n := o.Trips(types)
	carry := emitZero(w, slices.Clone(in[:o.Carry]), o.Start)
	if n == 0 {
		for _, t := range out[o.Carry:] {
			carry = append(carry, w.Constant(hloType(t), 0))
		}
		return emitZero(w, carry, o.Zero)
	}
	f := mustBodyOf(o.Body, o.bodyTypes(types)[0]).f
	state := append([]hlo.Ref{w.Constant(hlo.Type{DType: array.I32}, 0)}, carry...)
	for _, t := range out[o.Carry:] {
		state = append(state, w.Constant(hloType(t), 0))
	}
	state = append(state, in[o.Carry:]...)
	end := w.While(n, state, func(s []hlo.Ref) []hlo.Ref {
		at := s[0]
		if o.Reverse {
			at = w.Op("subtract", "", at.Type, w.Constant(at.Type, float64(n-1)), at)
		}
		carry, rows, rest := s[1:1+o.Carry], s[1+o.Carry:1+len(out)], s[1+len(out):]
		args := slices.Clone(carry)
		for i, x := range rest {
			if i < o.Xs {
				x = emitRow(w, x, at)
			}
			args = append(args, x)
		}
		given := emitBody(w, f, args)
		if o.Save {
			given = append(given, carry...)
		}
		next := slices.Clone(given[:o.Carry])
		for i, x := range given[o.Carry:] {
			next = append(next, emitPutRow(w, rows[i], x, at))
		}
		return append(next, rest...)
	})
	return emitZero(w, end[1:1+len(out)], o.Zero)
}

// emitRow returns the row of x at an index.
func emitRow(w *hlo.Writer, x, at hlo.Ref) hlo.Ref {
	shape := append(array.Shape{1}, x.Shape[1:]...)
	operands := append([]hlo.Ref{x}, emitStarts(w, at, len(x.Shape), []int{0})...)
	row := w.Op("dynamic_slice", "slice_sizes = "+hlo.Ints(shape), hlo.Type{DType: x.DType, Shape: shape},
		operands...)
	return w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: x.Shape[1:]}, row)
}

// emitPutRow returns x with the row at an index replaced.
func emitPutRow(w *hlo.Writer, x, row, at hlo.Ref) hlo.Ref {
	row = w.Op("reshape", "", hlo.Type{DType: x.DType, Shape: append(array.Shape{1}, row.Shape...)}, row)
	operands := append([]hlo.Ref{x, row}, emitStarts(w, at, len(x.Shape), []int{0})...)
	return w.Op("dynamic_update_slice", "", x.Type, operands...)
}
