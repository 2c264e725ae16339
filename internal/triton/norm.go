package triton

import "github.com/galley-ml/galley/array"

// widest is the longest row of which a program can hold several copies.
const widest = 1 << 14

// Holds reports whether a program can hold a row of this width at once.
func Holds(width int) bool { return width > 0 && width <= widest }

// AddRMSNorm adds two arrays of rows and divides each row by its root mean square. Its arrays: two of type d,
// gamma of type g; then the sums and the results, of type d, and one f32 for each row, 1 / root mean square.
func AddRMSNorm(d, g array.DType, rows, width int, eps float64) *Kernel {
	k := New("add_rms_norm")
	k.Programs, k.Warps = rows, warps(width, 1024, 2)
	a, b, gamma, sum, y, rstd := k.Pointer(d), k.Pointer(d), k.Pointer(g), k.Pointer(d), k.Pointer(d),
		k.Pointer(array.F32)
	program, row := k.Program(), k.Row(width)
	offset := k.Offset(program, width)
	x := k.Calc("addf", row.Load(k.At(a, offset), 0), row.Load(k.At(b, offset), 0))
	x = row.Store(k.At(sum, offset), x)
	mean := k.Calc("mulf", k.Sum(k.Calc("mulf", x, x)), k.Float(1/float64(width)))
	r := k.Math("rsqrt", k.Calc("addf", mean, k.Float(eps)))
	row.Store(k.At(y, offset), k.Calc("mulf", k.Calc("mulf", x, row.Spread(r)), row.Load(gamma, 0)))
	k.StoreOne(k.At(rstd, program), r)
	return k
}

// gradWarps is the number of warps that share the rows of a gradient: 32 on each of a large device's 132 SMs,
// half of what they can run.
const gradWarps = 132 * 32

// GradSums returns the number of partial sums for gamma that RMSNormGrad writes.
func GradSums(rows, width int) int { return min(rows, gradWarps/gradEach(width)) }

func gradEach(width int) int { return warps(width, 256, 4) }

// RMSNormGrad returns the gradient of rows divided by their root mean square, added to another gradient. Its
// arrays: x of type d, gamma of type g, the result's gradient of type d, 1 / root mean square of each row as
// f32, what to add, of type d; then x's gradient, of type d, and f32 sums for gamma's, GradSums rows of them.
func RMSNormGrad(d, g array.DType, rows, width int) *Kernel {
	k := New("rms_norm_grad")
	k.Programs, k.Warps = GradSums(rows, width), gradEach(width)
	x, gamma, dy, rstd, rest, dx, sums := k.Pointer(d), k.Pointer(g), k.Pointer(d), k.Pointer(array.F32),
		k.Pointer(d), k.Pointer(d), k.Pointer(array.F32)
	program, row := k.Program(), k.Row(width)
	scale, share := row.Load(gamma, 0), k.Float(1/float64(width))
	sum := k.For(program, k.Int(rows), k.Int(k.Programs), []Value{row.Fill(0)},
		func(i Value, sum []Value) []Value {
			at := k.Offset(i, width)
			r := row.Spread(k.LoadOne(k.At(rstd, i)))
			dout, other := row.Load(k.At(dy, at), 0), row.Load(k.At(rest, at), 0)
			h, g := k.Calc("mulf", row.Load(k.At(x, at), 0), r), k.Calc("mulf", dout, scale)
			mean := k.Calc("mulf", k.Sum(k.Calc("mulf", g, h)), share)
			grad := k.Calc("mulf", r, k.Calc("subf", g, k.Calc("mulf", h, row.Spread(mean))))
			row.Store(k.At(dx, at), k.Calc("addf", grad, other))
			return []Value{k.Calc("addf", sum[0], k.Calc("mulf", dout, h))}
		})
	row.Store(k.At(sums, k.Offset(program, width)), sum[0])
	return k
}

// warps returns the number of warps of a program for a width, with each numbers in a thread, and at least
// least.
func warps(width, each, least int) int {
	n := least
	for n < 16 && n*each < width {
		n *= 2
	}
	return n
}
