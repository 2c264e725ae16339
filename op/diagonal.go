package op

import "github.com/galley-ml/galley/array"

// Diagonal returns the offset-th diagonal of the matrices in the last two dims of x, as the last dim of the
// result.
func Diagonal(x *Tensor, offset int) *Tensor {
	if x.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	if rank < 2 {
		return refuse(x, "diagonal", "%v: want a matrix or a batch of them", x.Type())
	}
	rows, cols := x.Dim(rank-2), x.Dim(rank-1)
	row, col := max(0, -offset), max(0, offset)
	n := max(0, min(rows-row, cols-col))
	at := Iota(x.Scope(), array.I32, array.Shape{n}, 0)
	at = AddScalar(MulScalar(at, float64(cols+1)), float64(row*cols+col))
	flat := Reshape(x, append(x.Shape()[:rank-2].Clone(), rows*cols)...)
	return IndexSelect(flat, rank-2, at)
}

// DiagEmbed returns matrices with the last dim of x on their offset-th diagonal and zeros elsewhere.
func DiagEmbed(x *Tensor, offset int) *Tensor {
	if x.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	if rank < 1 {
		return refuse(x, "diag_embed", "%v: want a vector or a batch of them", x.Type())
	}
	n := x.Dim(rank - 1)
	low, high := max(0, -offset), max(0, offset)
	size := n + low + high
	// Row r has its element, x[r−low], at column r+offset.
	rows := PadInterior(x, padded(rank, low), padded(rank, high), padded(rank, 0), 0)
	rows = Expand(Unsqueeze(rows, rank), append(x.Shape()[:rank-1].Clone(), size, size)...)
	return Tril(Triu(rows, offset), offset)
}

// padded returns how much is padded along the last of rank dims.
func padded(rank, last int) []int {
	list := make([]int, rank)
	list[rank-1] = last
	return list
}
