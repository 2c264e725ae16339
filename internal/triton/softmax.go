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

// SoftmaxGrad is the gradient of logits in one pass: the softmax, made anew from its logarithm's sums, less what it should be, which is hot at a
// row's label and even elsewhere, times the gradient of the row's loss. Its arrays: logits of type d, labels as i32, log-sum-exp and the losses'
// gradient as f32; then the logits' gradient, of type d.
func SoftmaxGrad(d array.DType, rows, width int, hot, even float64) *Kernel {
	k := New("softmax_grad")
	k.Programs = rows
	x, labels, lse, dloss, dx := k.Pointer(d), k.Pointer(array.I32), k.Pointer(array.F32), k.Pointer(array.F32), k.Pointer(d)
	program, part := k.Program(), k.Part(lsePart, width)
	offset := k.Offset(program, width)
	in, out := k.At(x, offset), k.At(dx, offset)
	label := part.Spread(k.LoadOne(k.At(labels, program)))
	top, scale := part.Spread(k.LoadOne(k.At(lse, program))), part.Spread(k.LoadOne(k.At(dloss, program)))
	yes, no := part.Fill(hot), part.Fill(even)
	k.For(k.Int(0), k.Int(width), k.Int(lsePart), nil, func(i Value, _ []Value) []Value {
		at := part.From(i)
		p := k.Math("exp", k.Calc("subf", at.Load(in, 0), top))
		target := at.Select(at.Equal(label), yes, no)
		at.Store(out, k.Calc("mulf", k.Calc("subf", p, target), scale))
		return nil
	})
	return k
}
