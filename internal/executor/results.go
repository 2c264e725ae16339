package executor

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// Stack concatenates the results of a forward pass's micro-batches by rows. Each must have as many rows as
// its micro-batch, unless there is only one.
func Stack(parts [][]array.Array, rows []int) (out []array.Array, err error) {
	switch len(parts) {
	case 0:
		return nil, nil
	case 1:
		return parts[0], nil
	}
	for i := range parts[0] {
		for m, p := range parts {
			if s := p[i].Shape(); len(s) == 0 || s[0] != rows[m] {
				return nil, fmt.Errorf(
					"forward: result %d of a micro-batch of %d rows has shape %v: want a row for each: "+
						"reduce it after Run, or set Micro to 1",
					i,
					rows[m],
					s,
				)
			}
		}
		out = append(out, stack(parts, i))
	}
	return out, nil
}

// stack concatenates the rows of result i of all parts.
func stack(parts [][]array.Array, i int) array.Array {
	n := 0
	for _, p := range parts {
		n += p[i].Shape()[0]
	}
	shape := append(array.Shape{n}, parts[0][i].Shape()[1:]...)
	all := array.New(parts[0][i].DType(), shape...)
	at := 0
	for _, p := range parts {
		at += copy(all.Bytes()[at:], p[i].Bytes())
	}
	return all
}

// Sums adds up scalar results over micro-batches.
func Sums(parts [][]array.Array) []float64 {
	sums := make([]float64, len(parts[0]))
	for _, p := range parts {
		for i, a := range p {
			sums[i] += a.At(0)
		}
	}
	return sums
}
