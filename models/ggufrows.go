package models

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
)

// rowOrder returns the row in a file of each row of a parameter; nil where they are the same.
func rowOrder(c Config, name string) func(row int) int {
	query := strings.Contains(name, "self_attn.q_proj.") || strings.Contains(name, "self_attn.k_proj.")
	switch {
	case strings.Contains(name, ".query_key_value."):
		return func(row int) int { return apart(row, c.Heads, c.KVHeads, c.HeadDim) }
	case query && ggufFamilies()[c.Family].turned && !c.Rope.Interleaved:
		return func(row int) int { return besides(row, c.HeadDim) }
	}
	return nil
}

// besides returns the row in llama.cpp's order of our row i: elements half a head apart become adjacent.
func besides(i, headDim int) int {
	head, at := i/headDim, i%headDim
	return head*headDim + at%(headDim/2)*2 + at/(headDim/2)
}

// apart returns the row in llama.cpp's order, all queries, all keys, all values, of our row i, where for each
// head of keys its queries, its key and its value follow each other.
func apart(i, heads, keys, headDim int) int {
	each := heads / keys
	head, at := i/headDim, i%headDim
	group, part := head/(each+2), head%(each+2)
	switch part {
	case each:
		head = heads + group
	case each + 1:
		head = heads + keys + group
	default:
		head = group*each + part
	}
	return head*headDim + at
}

// transposes reports whether a file has the columns of a parameter as rows.
func transposes(c Config, name string) bool {
	return ggufFamilies()[c.Family].columns && strings.Contains(name, ".c_") &&
		strings.HasSuffix(name, ".weight")
}

// transposed returns the columns of a matrix as rows.
func transposed(a array.Array) array.Array {
	rows, columns := a.Shape()[0], a.Shape()[1]
	out := array.New(a.DType(), columns, rows)
	size := len(a.Bytes()) / (rows * columns)
	for i := range rows {
		for j := range columns {
			copy(out.Bytes()[(j*rows+i)*size:], a.Bytes()[(i*columns+j)*size:(i*columns+j+1)*size])
		}
	}
	return out
}

// reordered returns an array with its rows in the other order, to llama.cpp's or back.
func reordered(a array.Array, order func(row int) int, back bool) array.Array {
	out := array.New(a.DType(), a.Shape()...)
	rows := a.Shape()[0]
	size := len(a.Bytes()) / rows
	for i := range rows {
		from, to := i, order(i)
		if back {
			from, to = to, from
		}
		copy(out.Bytes()[to*size:(to+1)*size], a.Bytes()[from*size:(from+1)*size])
	}
	return out
}

// reorderedBack is like reordered for quantized matrices, from llama.cpp's order.
func reorderedBack(m quant.Matrix, order func(row int) int) quant.Matrix {
	out, n := m, m.Groups()
	out.Values, out.Scales = make([]byte, len(m.Values)), make([]float32, len(m.Scales))
	for i := range m.Out {
		from := order(i)
		copy(out.Values[i*m.In:(i+1)*m.In], m.Values[from*m.In:])
		copy(out.Scales[i*n:(i+1)*n], m.Scales[from*n:])
	}
	return out
}

// offset returns what a file adds to a parameter: gemma's norms include the 1 that we add.
func offset(c Config, name string) float32 {
	if strings.HasSuffix(name, "norm.weight") {
		return ggufFamilies()[c.Family].offset
	}
	return 0
}

// shifted adds a number to all elements.
func shifted(a array.Array, by float32) array.Array {
	x := make([]float32, a.Len())
	packed.Floats(x, a, 0)
	for i := range x {
		x[i] += by
	}
	return array.FromSlice(x, a.Shape()...)
}
