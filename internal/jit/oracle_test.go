package jit

import (
	"math"

	"github.com/galley-ml/galley/internal/lane"
)

// interpret runs a program on rows in plain Go, in the order of vectors of so many lanes: what code must
// give. Streams hold the bits of rows one after the other; those of rows have one number each.
func interpret(p *Program, lanes, rows int, streams [][]uint32) {
	for r := range rows {
		values := make([][]uint32, len(p.Values))
		for i := range p.Values {
			values[i] = valueOf(p, i, lanes, r, streams, values)
		}
		for _, s := range p.Stores {
			for c, x := range values[s.Value] {
				switch {
				case s.Add:
					old := math.Float32frombits(streams[s.Stream][c])
					streams[s.Stream][c] = math.Float32bits(old + math.Float32frombits(x))
				case p.Values[s.Value].Level == Row:
					streams[s.Stream][r] = x
				default:
					streams[s.Stream][r*p.Cols+c] = x
				}
				if p.Values[s.Value].Level == Row {
					break
				}
			}
		}
	}
}

// valueOf returns a row of a value; numbers of rows are repeated.
func valueOf(p *Program, i, lanes, r int, streams [][]uint32, values [][]uint32) []uint32 {
	v := &p.Values[i]
	row := make([]uint32, p.Cols)
	switch v.Kind {
	case Stream:
		for c := range row {
			if row[c] = streams[v.Stream][r]; v.Level == Elem {
				row[c] = streams[v.Stream][r*p.Cols+c]
			}
		}
	case Number:
		for c := range row {
			row[c] = numberBits(v)
		}
	case Copy:
		copy(row, values[v.In[0]])
	case Fold:
		x := foldOf(v, lanes, values[v.In[0]])
		for c := range row {
			row[c] = x
		}
	case Map:
		b := lane.NewBuilder(lanes == 16, len(v.In))
		args := make([]lane.Arg, len(v.In))
		for k := range args {
			args[k] = b.In(k)
		}
		result := v.Lane(b, args)
		in := make([]uint32, len(v.In))
		for c := range row {
			for k, x := range v.In {
				in[k] = values[x][c]
			}
			row[c] = lane.Run(b.Code, in, result)
		}
	}
	return row
}

func foldOf(v *Value, lanes int, row []uint32) uint32 {
	if v.Fold != lane.FoldSum {
		return extremeOf(v.Fold, row)
	}
	var leaves []float32
	for lo := 0; lo < len(row); lo += leaf {
		leaves = append(leaves, sumOf(row[lo:min(lo+leaf, len(row))], lanes))
	}
	sum := treeOf(leaves)
	if v.Count != 0 {
		sum /= float32(v.Count)
	}
	return math.Float32bits(sum)
}

// treeOf adds by halves, the left one a power of two.
func treeOf(xs []float32) float32 {
	if len(xs) == 1 {
		return xs[0]
	}
	half := 1
	for 2*half < len(xs) {
		half *= 2
	}
	return treeOf(xs[:half]) + treeOf(xs[half:])
}

// sumOf adds as the kernels do: four vectors of sums in turn, the vectors that are left into the first.
func sumOf(row []uint32, lanes int) float32 {
	acc := make([]float32, 4*lanes)
	whole := len(row) / (4 * lanes) * (4 * lanes)
	for i, x := range row {
		k := i % (4 * lanes)
		if i >= whole {
			k = i % lanes
		}
		acc[k] += math.Float32frombits(x)
	}
	for n := len(acc) / 2; n > 0; n /= 2 {
		for i := range n {
			acc[i] += acc[i+n]
		}
	}
	return acc[0]
}

func extremeOf(how lane.Fold, row []uint32) uint32 {
	best := extreme(how)
	for _, b := range row {
		x := math.Float32frombits(b)
		if x != x {
			return 0x7fc00000
		}
		if how == lane.FoldMax && x > best || how == lane.FoldMin && x < best {
			best = x
		}
	}
	zero := float32(0) // what was NaN is added at the end: a zero loses its sign
	return math.Float32bits(best + zero)
}
