package triton

import "github.com/galley-ml/galley/array"

// gatePart is the part of a row that a program computes.
const gatePart = 512

// SwiGLU returns a kernel for silu(gate)·up of rows that hold gate and up one after the other, width of each.
// Its arrays: the rows, of type d; then the results, of type d.
func SwiGLU(d array.DType, rows, width int) *Kernel {
	k := New("swiglu")
	parts := (width + gatePart - 1) / gatePart
	k.Programs, k.Warps = rows*parts, 2
	x, y := k.Pointer(d), k.Pointer(d)
	program, count := k.Program(), k.Int(parts)
	row, begin := k.Calc("divsi", program, count), k.Calc("muli", k.Calc("remsi", program, count),
		k.Int(gatePart))
	part := k.Part(gatePart, width).From(begin)
	if width%gatePart == 0 {
		part.mask = Value{}
	}
	from := k.At(x, k.Offset(row, 2*width))
	gate, up := part.Load(from, 0), part.Load(k.At(from, k.Int(width)), 0)
	one := part.Fill(1)
	sigmoid := k.Calc("divf", one, k.Calc("addf", one, k.Math("exp", k.Calc("subf", part.Fill(0), gate))))
	part.Store(k.At(y, k.Offset(row, width)), k.Calc("mulf", k.Calc("mulf", gate, sigmoid), up))
	return k
}
