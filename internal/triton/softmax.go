package triton

import "github.com/galley-ml/galley/array"

// lsePart is the part of a row that a program holds at a time.
const lsePart = 4096

// LogSumExp returns a kernel for the log-sum-exp of each row, in one pass. Its arrays: one of type d; then an
// f32 for each row.
func LogSumExp(d array.DType, rows, width int) *Kernel {
	k := New("log_sum_exp")
	k.Programs = rows
	x, out := k.Pointer(d), k.Pointer(array.F32)
	program, part := k.Program(), k.Part(lsePart, width)
	k.StoreOne(k.At(out, program), k.logSumExp(part, k.At(x, k.Offset(program, width))))
	return k
}

// logSumExp computes the log-sum-exp of the row at a pointer, part by part.
func (k *Kernel) logSumExp(part *Block, row Value) Value {
	// The maximum so far and the sum of exponentials of the differences to it.
	r := k.For(k.Int(0), k.Int(part.width), k.Int(part.size), []Value{k.Float(negativeInfinity), k.Float(0)},
		func(i Value, last []Value) []Value {
			v := part.From(i).Load(row, negativeInfinity)
			most := k.Calc("maxnumf", last[0], k.Max(v))
			sum := k.Sum(k.Math("exp", k.Calc("subf", v, part.Spread(most))))
			before := k.Calc("mulf", last[1], k.Math("exp", k.Calc("subf", last[0], most)))
			return []Value{most, k.Calc("addf", before, sum)}
		})
	return k.Calc("addf", r[0], k.Math("log", r[1]))
}

// Target is the target distribution of a softmax: Hot at a row's label and Even elsewhere.
type Target struct{ Hot, Even float64 }

// SoftmaxGrad returns a kernel for the gradient of logits in one pass: the softmax, recomputed from the
// log-sum-exp, minus the target, times the gradient of the row's loss. Its arrays: logits of type d, labels
// as i32, log-sum-exp and the losses' gradient as f32; then the logits' gradient, of type d.
func SoftmaxGrad(d array.DType, rows, width int, target Target) *Kernel {
	k := New("softmax_grad")
	k.Programs = rows
	x, labels, lse, dloss, dx := k.Pointer(d), k.Pointer(array.I32), k.Pointer(array.F32), k.Pointer(array.F32),
		k.Pointer(d)
	program, part := k.Program(), k.Part(lsePart, width)
	offset := k.Offset(program, width)
	g := softmaxGrad{part, k.At(x, offset), k.At(dx, offset), target}
	g.write(k.LoadOne(k.At(labels, program)), k.LoadOne(k.At(lse, program)), k.LoadOne(k.At(dloss, program)))
	return k
}

// softmaxGrad computes the gradient of a row of logits, part by part.
type softmaxGrad struct {
	part    *Block
	in, out Value
	target  Target
}

func (g softmaxGrad) write(label, lse, dloss Value) {
	k, part := g.part.k, g.part
	label, top, scale := part.Spread(label), part.Spread(lse), part.Spread(dloss)
	yes, no := part.Fill(g.target.Hot), part.Fill(g.target.Even)
	k.For(k.Int(0), k.Int(part.width), k.Int(part.size), nil, func(i Value, _ []Value) []Value {
		at := part.From(i)
		p := k.Math("exp", k.Calc("subf", at.Load(g.in, 0), top))
		target := at.Select(at.Equal(label), yes, no)
		at.Store(g.out, k.Calc("mulf", k.Calc("subf", p, target), scale))
		return nil
	})
}

// lossPart is the part of a row that a program holds at a time when it reads the row twice: large enough that
// few rows are in progress at a time, so that the second read hits the cache.
const lossPart = 8192

// CrossEntropy returns a kernel for LogSumExp and SoftmaxGrad together, which reads the logits from memory
// once. Its arrays: logits of type d, labels as i32 and the losses' gradient as f32; then an f32 for each
// row, and the logits' gradient, of type d.
func CrossEntropy(d array.DType, rows, width int, target Target) *Kernel {
	k := New("cross_entropy")
	k.Programs, k.Warps = rows, 8
	x, labels, dloss, sums, dx := k.Pointer(d), k.Pointer(array.I32), k.Pointer(array.F32), k.Pointer(array.F32),
		k.Pointer(d)
	program, part := k.Program(), k.Part(lossPart, width)
	offset := k.Offset(program, width)
	row := k.At(x, offset)
	lse := k.logSumExp(part.Keep(), row)
	k.StoreOne(k.At(sums, program), lse)
	g := softmaxGrad{part.Drop(), row, k.At(dx, offset), target}
	g.write(k.LoadOne(k.At(labels, program)), lse, k.LoadOne(k.At(dloss, program)))
	return k
}
