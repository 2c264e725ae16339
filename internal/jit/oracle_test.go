package jit

import (
	"math"

	"github.com/galley-ml/galley/internal/lane"
)

// bits is a lane: a float of 32 or of 64 bits, or a truth.
type bits interface{ uint32 | uint64 }

// float returns the number in a lane, and bitsOf the lane of a number.
func float[W bits](x W) float64 {
	if b, ok := any(x).(uint32); ok {
		return float64(math.Float32frombits(b))
	}
	return math.Float64frombits(uint64(x))
}

func bitsOf[W bits](v float64) W {
	if any(W(0)) == any(uint32(0)) {
		return W(math.Float32bits(float32(v)))
	}
	return W(math.Float64bits(v))
}

// plus is rounded once: a sum of two floats in float64, rounded to float32, is their sum in that.
func plus[W bits](x, y W) W { return bitsOf[W](float(x) + float(y)) }

// interpret runs a program on rows in plain Go, in the order of vectors of so many lanes: what code must
// give. Streams hold the bits of rows one after the other; those of rows have one number each.
func interpret[W bits](p *Program, wide bool, rows int, streams [][]W) {
	for r := range rows {
		values := make([][]W, len(p.Values))
		for i := range p.Values {
			values[i] = valueOf(p, i, wide, r, streams, values)
		}
		for _, s := range p.Stores {
			for c, x := range values[s.Value] {
				switch {
				case s.Add:
					streams[s.Stream][c] = plus(streams[s.Stream][c], x)
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
func valueOf[W bits](p *Program, i int, wide bool, r int, streams, values [][]W) []W {
	v := &p.Values[i]
	row := make([]W, p.Cols)
	switch v.Kind {
	case Stream:
		for c := range row {
			if row[c] = streams[v.Stream][r]; v.Level == Elem {
				row[c] = streams[v.Stream][r*p.Cols+c]
			}
		}
	case Number:
		for c := range row {
			row[c] = W(p.numberBits(v))
		}
	case Copy:
		copy(row, values[v.In[0]])
	case Fold:
		x := foldOf(v, lanesOf(p, wide), values[v.In[0]])
		for c := range row {
			row[c] = x
		}
	case Map:
		b := (&compiler{p: p, wide: wide}).builder(len(v.In))
		args := make([]lane.Arg, len(v.In))
		for k := range args {
			args[k] = b.In(k)
		}
		result := v.Lane(b, args)
		in := make([]W, len(v.In))
		for c := range row {
			for k, x := range v.In {
				in[k] = values[x][c]
			}
			row[c] = runLane(b.Code, in, result)
		}
	}
	return row
}

func runLane[W bits](code []lane.Instr, in []W, result lane.Arg) W {
	if v, ok := any(in).([]uint32); ok {
		return W(lane.Run(code, v, result))
	}
	return W(lane.RunDouble(code, any(in).([]uint64), result))
}

func lanesOf(p *Program, wide bool) int {
	if wide {
		return 64 / p.size()
	}
	return 32 / p.size()
}

func foldOf[W bits](v *Value, lanes int, row []W) W {
	if v.Fold != lane.FoldSum {
		return extremeOf(v.Fold, row)
	}
	var leaves []W
	for lo := 0; lo < len(row); lo += leaf {
		leaves = append(leaves, sumOf(row[lo:min(lo+leaf, len(row))], lanes))
	}
	sum := treeOf(leaves)
	if v.Count != 0 {
		sum = bitsOf[W](float(sum) / float64(v.Count))
	}
	return sum
}

// treeOf adds by halves, the left one a power of two.
func treeOf[W bits](xs []W) W {
	if len(xs) == 1 {
		return xs[0]
	}
	half := 1
	for 2*half < len(xs) {
		half *= 2
	}
	return plus(treeOf(xs[:half]), treeOf(xs[half:]))
}

// sumOf adds as the kernels do: four vectors of sums in turn, the vectors that are left into the first.
func sumOf[W bits](row []W, lanes int) W {
	acc := make([]W, 4*lanes)
	whole := len(row) / (4 * lanes) * (4 * lanes)
	for i, x := range row {
		k := i % (4 * lanes)
		if i >= whole {
			k = i % lanes
		}
		acc[k] = plus(acc[k], x)
	}
	for n := len(acc) / 2; n > 0; n /= 2 {
		for i := range n {
			acc[i] = plus(acc[i], acc[i+n])
		}
	}
	return acc[0]
}

func extremeOf[W bits](how lane.Fold, row []W) W {
	best := extreme(how)
	for _, b := range row {
		x := float(b)
		if x != x {
			return bitsOf[W](math.NaN())
		}
		if how == lane.FoldMax && x > best || how == lane.FoldMin && x < best {
			best = x
		}
	}
	zero := 0.0 // what was NaN is added at the end: a zero loses its sign
	return bitsOf[W](best + zero)
}
