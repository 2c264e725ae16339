package triton

import "github.com/galley-ml/galley/array"

// lsePart is how many numbers of a row a program holds.
const lsePart = 4096

// LogSumExp is the logarithm of the sum of exponentials of each row, in one pass. Its arrays: one of type d; then an f32 for each row.
func LogSumExp(d array.DType, rows, width int) *Kernel {
	k := New("log_sum_exp")
	k.Programs = rows
	x, out := k.Pointer(d), k.Pointer(array.F32)
	program, part := k.Program(), k.Part(lsePart, width)
	row := k.At(x, k.Offset(program, width))
	// The largest number so far and the sum of exponentials of the differences to it.
	r := k.For(k.Int(0), k.Int(width), k.Int(lsePart), []Value{k.Float(negativeInfinity), k.Float(0)}, func(i Value, last []Value) []Value {
		v := part.From(i).Load(row, negativeInfinity)
		most := k.Calc("maxnumf", last[0], k.Max(v))
		sum := k.Sum(k.Math("exp", k.Calc("subf", v, part.Spread(most))))
		before := k.Calc("mulf", last[1], k.Math("exp", k.Calc("subf", last[0], most)))
		return []Value{most, k.Calc("addf", before, sum)}
	})
	k.StoreOne(k.At(out, program), k.Calc("addf", r[0], k.Math("log", r[1])))
	return k
}
