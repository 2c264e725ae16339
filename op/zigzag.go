package op

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// ZigzagOrder returns, for each row of a sequence in zigzag order, its position: the sequence is split into
// 2·parts chunks, and part r has chunks r and 2·parts-1-r. Under a causal mask the queries of every part then
// attend to the same number of keys. It is nil if seq does not divide.
func ZigzagOrder(parts, seq int) []int {
	if !ZigzagFits(parts, seq) {
		return nil
	}
	order := make([]int, seq)
	for i := range order {
		order[i] = zigzagAt(parts, seq, i)
	}
	return order
}

// ZigzagFits reports whether a sequence can be put into the zigzag order of parts.
func ZigzagFits(parts, seq int) bool { return parts > 0 && seq > 0 && seq%2 == 0 && seq/2%parts == 0 }

// zigzagAt returns the position of row i.
func zigzagAt(parts, seq, i int) int {
	chunk := seq / (2 * parts)
	part, at := i/(2*chunk), i%(2*chunk)
	if at < chunk {
		return part*chunk + at
	}
	return (2*parts-2-part)*chunk + at
}

// ZigzagPositions returns ZigzagOrder as a tensor of i32; each device computes the rows that it has.
func ZigzagPositions(s Scope, parts, seq int) *Tensor {
	row := Iota(s, array.I32, array.Shape{seq}, 0)
	if !ZigzagFits(parts, seq) {
		return row
	}
	chunk := float64(seq / (2 * parts))
	whole := Const(row, 2*chunk)
	part, at := Div(row, whole), Mod(row, whole)
	first := Add(Mul(part, Const(row, chunk)), at)
	second := Add(Mul(Sub(Const(row, float64(2*parts-2)), part), Const(row, chunk)), at)
	return Where(Less(at, Const(row, chunk)), first, second)
}

// Positions are written as ranges of consecutive ones, each as its start and its size.

// zigzagRanges returns the positions of some rows of a sequence, which is in zigzag order unless parts is 0.
func zigzagRanges(parts, seq int, rows mesh.Range) []int {
	if parts == 0 {
		return []int{rows.Start, rows.Size}
	}
	var list []int
	chunk := seq / (2 * parts)
	for i := rows.Start; i < rows.Start+rows.Size; {
		n := min(chunk-i%chunk, rows.Start+rows.Size-i)
		start := zigzagAt(parts, seq, i)
		if k := len(list); k > 0 && list[k-2]+list[k-1] == start {
			list[k-1] += n
		} else {
			list = append(list, start, n)
		}
		i += n
	}
	if list == nil {
		list = []int{0, 0}
	}
	return list
}

// rangesLen returns the number of positions in the ranges.
func rangesLen(list []int) int {
	n := 0
	for i := 1; i < len(list); i += 2 {
		n += list[i]
	}
	return n
}

// shifted returns the ranges with by added to their starts.
func shifted(list []int, by int) []int {
	list = slices.Clone(list)
	for i := 0; i < len(list); i += 2 {
		list[i] += by
	}
	return list
}

// rangePositions returns the positions as a vector of i64.
func rangePositions(s Scope, list []int) *Tensor {
	var parts []*Tensor
	for i := 0; i < len(list); i += 2 {
		parts = append(parts, AddScalar(Iota(s, array.I64, array.Shape{list[i+1]}, 0), float64(list[i])))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return Concat(parts, 0)
}

// sees reports whether any query of a range attends to any key of another one, not counting segments.
func (o attention) sees(query, queries, key, keys int) bool {
	switch {
	case queries == 0 || keys == 0:
		return false
	case (o.Causal || o.Window > 0) && key > query+queries-1:
		return false
	case o.Window > 0 && key+keys-1 <= query-o.Window:
		return false
	}
	return true
}

// seesAny is like sees for lists of ranges.
func (o attention) seesAny(queries, keys []int) bool {
	for i := 0; i < len(queries); i += 2 {
		for j := 0; j < len(keys); j += 2 {
			if o.sees(queries[i], queries[i+1], keys[j], keys[j+1]) {
				return true
			}
		}
	}
	return false
}
