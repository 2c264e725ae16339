package torchop

import (
	"slices"

	"github.com/galley-ml/galley/op"
)

// shapes returns ops that move elements without computing.
func shapes() map[string]builder {
	return map[string]builder{
		"slice": func(a *attrs) Func {
			start, end, step := a.ints("start"), a.ints("end"), a.ints("step")
			return lift1(func(x *op.Tensor) *op.Tensor { return op.Slice(x, start, end, step) })
		},
		"narrow":            narrow,
		"select":            selected,
		"concat":            joined(op.Concat),
		"cat":               joined(op.Concat),
		"stack":             joined(op.Stack),
		"split":             split,
		"chunk":             chunk,
		"unbind":            listed(op.Unbind),
		"transpose":         transpose,
		"permute":           transpose,
		"swapaxes":          transpose,
		"t":                 func(*attrs) Func { return lift1(turned) },
		"movedim":           movedim,
		"reshape":           sized(op.Reshape),
		"view":              sized(op.Reshape),
		"expand":            expand,
		"broadcast_to":      expand,
		"flatten":           flatten,
		"squeeze":           squeeze,
		"unsqueeze":         func(a *attrs) Func { return along(op.Unsqueeze, a.dim(0)) },
		"tile":              tile,
		"repeat":            tile,
		"repeat_interleave": repeatInterleave,
		"pad":               pad,
		"flip": func(a *attrs) Func {
			over := a.ints("dim", "dims")
			return lift1(func(x *op.Tensor) *op.Tensor { return op.Flip(x, over...) })
		},
		"fliplr":     func(*attrs) Func { return lift1(func(x *op.Tensor) *op.Tensor { return op.Flip(x, 1) }) },
		"flipud":     func(*attrs) Func { return lift1(func(x *op.Tensor) *op.Tensor { return op.Flip(x, 0) }) },
		"roll":       roll,
		"tril":       func(a *attrs) Func { return along(op.Tril, a.int("diagonal", 0)) },
		"triu":       func(a *attrs) Func { return along(op.Triu, a.int("diagonal", 0)) },
		"diagonal":   diagonal,
		"diag_embed": func(a *attrs) Func { return along(op.DiagEmbed, a.int("offset", 0)) },
		"diag":       diag,
		"trace": func(*attrs) Func {
			return lift1(func(x *op.Tensor) *op.Tensor { return op.Sum(op.Diagonal(x, 0)) })
		},
		"pixel_shuffle":   func(a *attrs) Func { return along(op.PixelShuffle, a.int("upscale_factor", 1)) },
		"pixel_unshuffle": func(a *attrs) Func { return along(op.PixelUnshuffle, a.int("downscale_factor", 1)) },
		"sort":            sorted,
		"argsort": func(a *attrs) Func {
			f := sorted(a)
			return Func{1, 1, func(in []*op.Tensor) []*op.Tensor { return f.Of(in)[1:] }}
		},
		"topk":     topk,
		"kthvalue": kthvalue,
		"median":   median,
	}
}

// diagonal returns the diagonal of the matrices in two dims, by default the first ones.
func diagonal(a *attrs) Func {
	offset, first, second := a.int("offset", 0), a.int("dim1", 0), a.int("dim2", 1)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil || len(x.Shape()) < 2 {
			return op.Diagonal(x, offset)
		}
		rank := len(x.Shape())
		rows, cols := at(first, rank), at(second, rank)
		var perm []int
		for d := range rank {
			if d != rows && d != cols {
				perm = append(perm, d)
			}
		}
		return op.Diagonal(op.Transpose(x, append(perm, rows, cols)...), offset)
	})
}

func joined(f func(xs []*op.Tensor, dim int) *op.Tensor) builder {
	return func(a *attrs) Func {
		dim := a.dim(0)
		return liftAll(func(in []*op.Tensor) *op.Tensor { return f(in, dim) })
	}
}

func sized(f func(x *op.Tensor, shape ...int) *op.Tensor) builder {
	return func(a *attrs) Func {
		shape := a.ints("shape", "size")
		return lift1(func(x *op.Tensor) *op.Tensor { return f(x, shape...) })
	}
}

// expand accepts -1 for an unchanged size.
func expand(a *attrs) Func {
	shape := a.ints("shape", "size", "sizes")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		to := slices.Clone(shape)
		for i := range to {
			if at := i - len(to) + len(x.Shape()); to[i] == -1 && at >= 0 {
				to[i] = x.Dim(at)
			}
		}
		return op.Expand(x, to...)
	})
}

func listed(f func(x *op.Tensor, dim int) []*op.Tensor) builder {
	return func(a *attrs) Func {
		dim := a.dim(0)
		return Func{1, 1, func(in []*op.Tensor) []*op.Tensor { return f(in[0], dim) }}
	}
}

func narrow(a *attrs) Func {
	dim, start, length := a.dim(0), a.int("start", 0), a.int("length", 1)
	return lift1(func(x *op.Tensor) *op.Tensor { return op.Narrow(x, dim, start, start+length) })
}

func selected(a *attrs) Func {
	dim, at := a.dim(0), a.int("index", 0)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() == nil && at < 0 && len(x.Shape()) > 0 {
			return op.Squeeze(op.Narrow(x, dim, x.Dim(dim)+at, x.Dim(dim)+at+1), dim)
		}
		return op.Squeeze(op.Narrow(x, dim, at, at+1), dim)
	})
}

// split accepts the sizes of parts, or one for all, of which the last may be smaller.
func split(a *attrs) Func {
	whole := a.raw["sizes"]
	dim, sizes := a.dim(0), a.ints("sizes", "split_size", "split_size_or_sections", "split_sizes")
	each := len(sizes) == 1 && (len(whole) == 0 || whole[0] != '[')
	return Func{1, 1, func(in []*op.Tensor) []*op.Tensor {
		x := in[0]
		if x.Err() != nil || !each || sizes[0] < 1 {
			return op.Split(x, dim, sizes...)
		}
		var parts []int
		for left := x.Dim(dim); left > 0; left -= sizes[0] {
			parts = append(parts, min(left, sizes[0]))
		}
		return op.Split(x, dim, parts...)
	}}
}

// chunk returns parts of one size, of which the last may be smaller; there may be fewer than requested.
func chunk(a *attrs) Func {
	n, dim := a.int("chunks", 1), a.dim(0)
	return Func{1, 1, func(in []*op.Tensor) []*op.Tensor {
		x := in[0]
		if x.Err() != nil {
			return in[:1]
		}
		each := (x.Dim(dim) + n - 1) / max(1, n)
		var parts []int
		for left := x.Dim(dim); left > 0; left -= each {
			parts = append(parts, min(left, each))
		}
		return op.Split(x, dim, parts...)
	}}
}

// transpose accepts a permutation of all dims, or two dims to swap.
func transpose(a *attrs) Func {
	perm, first, second := a.ints("perm", "dims"), a.ints("dim0", "axis0"), a.ints("dim1", "axis1")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if len(first) == 1 && len(second) == 1 {
			return swapped(x, first[0], second[0])
		}
		return op.Transpose(x, perm...)
	})
}

// swapped returns x with two dims in each other's place.
func swapped(x *op.Tensor, first, second int) *op.Tensor {
	if x.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = i
	}
	if rank > 0 {
		i, j := at(first, rank), at(second, rank)
		perm[i], perm[j] = perm[j], perm[i]
	}
	return op.Transpose(x, perm...)
}

// turned returns the transposed matrix; a vector is unchanged.
func turned(x *op.Tensor) *op.Tensor {
	if x.Err() != nil || len(x.Shape()) < 2 {
		return x
	}
	return swapped(x, 0, 1)
}

func movedim(a *attrs) Func {
	from, to := a.ints("source"), a.ints("destination")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		rank := len(x.Shape())
		perm := slices.Repeat([]int{-1}, rank)
		moved := map[int]bool{}
		for i := range from {
			perm[at(to[i], rank)] = at(from[i], rank)
			moved[at(from[i], rank)] = true
		}
		next := 0
		for i, d := range perm {
			if d >= 0 {
				continue
			}
			for moved[next] {
				next++
			}
			perm[i] = next
			next++
		}
		return op.Transpose(x, perm...)
	})
}

func flatten(a *attrs) Func {
	first, last := a.int("start_dim", 0), a.int("end_dim", -1)
	return lift1(func(x *op.Tensor) *op.Tensor { return op.Flatten(x, first, last) })
}

// squeeze drops the dims of size 1 among the given ones, or all.
func squeeze(a *attrs) Func {
	over := a.ints("dim")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		rank := len(x.Shape())
		var drop []int
		for d, n := range x.Shape() {
			if n == 1 && (over == nil || slices.Contains(over, d) || slices.Contains(over, d-rank)) {
				drop = append(drop, d)
			}
		}
		if drop == nil {
			return x
		}
		return op.Squeeze(x, drop...)
	})
}

// tile accepts more repetitions than dims, or fewer: they are aligned at the last.
func tile(a *attrs) Func {
	reps := a.ints("reps", "dims", "repeats")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		rank := len(x.Shape())
		if n := len(reps); n > rank {
			x = op.Reshape(x, append(slices.Repeat([]int{1}, n-rank), x.Shape()...)...)
		}
		times := append(slices.Repeat([]int{1}, max(0, rank-len(reps))), reps...)
		return op.Tile(x, times...)
	})
}

func repeatInterleave(a *attrs) Func {
	n, dim := a.int("repeats", 1), a.ints("dim")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		d := 0
		if dim == nil {
			x = op.Reshape(x, -1)
		} else if d = dim[0]; d < 0 {
			d += len(x.Shape())
		}
		shape := x.Shape().Clone()
		wide := op.Unsqueeze(x, d+1)
		to := wide.Shape().Clone()
		to[d+1] = n
		shape[d] *= n
		return op.Reshape(op.Expand(wide, to...), shape...)
	})
}

// pad accepts the padding before and after each dim, or PyTorch's list of both, the last dim first.
func pad(a *attrs) Func {
	low, high, flat := a.ints("low"), a.ints("high"), a.ints("pad")
	mode := a.oneOf("mode", "constant", "reflect", "replicate", "circular")
	value := a.float("value", 0)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() != nil {
			return x
		}
		low, high := low, high
		if flat != nil {
			low, high = make([]int, len(x.Shape())), make([]int, len(x.Shape()))
			for i := 0; i+1 < len(flat) && i/2 < len(low); i += 2 {
				low[len(low)-1-i/2], high[len(low)-1-i/2] = flat[i], flat[i+1]
			}
		}
		switch mode {
		case "reflect":
			return op.PadReflect(x, low, high)
		case "replicate":
			return op.PadReplicate(x, low, high)
		case "circular":
			return op.PadCircular(x, low, high)
		}
		return op.Pad(x, low, high, value)
	})
}

// roll rolls along dims, or all elements in order if there are none.
func roll(a *attrs) Func {
	by, over := a.ints("shift", "shifts"), a.ints("dim", "dims")
	return lift1(func(x *op.Tensor) *op.Tensor {
		if over == nil && x.Err() == nil {
			return op.Reshape(op.Roll(op.Reshape(x, -1), by, []int{0}), x.Shape()...)
		}
		return op.Roll(x, by, over)
	})
}

// diag returns a matrix of a vector, or the diagonal of a matrix.
func diag(a *attrs) Func {
	offset := a.int("diagonal", 0)
	return lift1(func(x *op.Tensor) *op.Tensor {
		if x.Err() == nil && len(x.Shape()) == 1 {
			return op.DiagEmbed(x, offset)
		}
		return op.Diagonal(x, offset)
	})
}

func sorted(a *attrs) Func {
	dim, down := a.dim(-1), a.bool("descending", false)
	a.bool("stable", true) // equal elements always keep their order
	return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
		if down {
			return op.SortDescending(x, dim)
		}
		return op.Sort(x, dim)
	})
}

func topk(a *attrs) Func {
	k, dim, largest := a.int("k", 1), a.dim(-1), a.bool("largest", true)
	a.bool("sorted", true) // they always are
	return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
		if largest {
			return op.TopK(x, k, dim)
		}
		values, at := op.Sort(x, dim)
		return op.Narrow(values, dim, 0, k), op.Narrow(at, dim, 0, k)
	})
}

func kthvalue(a *attrs) Func {
	k, dim, keep := a.int("k", 1), a.dim(-1), a.bool("keepdim", false)
	return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
		values, at := op.Sort(x, dim)
		return oneOfSorted(values, at, k-1, dim, keep)
	})
}

func oneOfSorted(values, at *op.Tensor, k, dim int, keep bool) (*op.Tensor, *op.Tensor) {
	value, index := op.Narrow(values, dim, k, k+1), op.Narrow(at, dim, k, k+1)
	if keep {
		return value, index
	}
	return op.Squeeze(value, dim), op.Squeeze(index, dim)
}

// median returns the lower of two middle elements: of all, or along a dim with its index.
func median(a *attrs) Func {
	if !a.has("dim") {
		a.never("dim", "keepdim")
		return lift1(func(x *op.Tensor) *op.Tensor {
			if x.Err() != nil {
				return x
			}
			values, at := op.Sort(op.Reshape(x, -1), 0)
			value, _ := oneOfSorted(values, at, (x.Shape().Len()-1)/2, 0, false)
			return value
		})
	}
	dim, keep := a.dim(-1), a.bool("keepdim", false)
	return both(func(x *op.Tensor) (*op.Tensor, *op.Tensor) {
		values, at := op.Sort(x, dim)
		if x.Err() != nil {
			return values, at
		}
		return oneOfSorted(values, at, (x.Dim(dim)-1)/2, dim, keep)
	})
}
