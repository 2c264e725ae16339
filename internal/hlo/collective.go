package hlo

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Groups returns the replica_groups attribute: groups of devices, all of one size.
func Groups(groups [][]int) string {
	rows := make([]string, len(groups))
	for i, g := range groups {
		rows[i] = list(g)
	}
	size := 0
	if len(groups) > 0 {
		size = len(groups[0])
	}
	return fmt.Sprintf("replica_groups = dense<[%s]> : tensor<%dx%dxi64>", strings.Join(rows, ", "), len(groups),
		size)
}

// Combine emits a collective that reduces elements with a binary op of the dialect.
func (w *Writer) Combine(name, attrs, binary string, x Ref, out Type) Ref {
	return w.OpN(name, attrs, []string{w.Binary(binary, x.DType)}, []Type{out}, x)[0]
}

// PerDevice returns the entry of a table for the device that runs the program: an i32 scalar.
func (w *Writer) PerDevice(table []int) Ref {
	id := w.Once("device", func() Ref {
		id := w.write("replica_id", "", nil, []string{"tensor<ui32>"}, nil)[0]
		w.indent()
		at := Ref{Type{DType: array.I32}, w.name(1)[0]}
		fmt.Fprintf(w.body, " = \"stablehlo.convert\"(%s) : (tensor<ui32>) -> (tensor<i32>)\n", id)
		return at
	})
	xs := make([]float64, len(table))
	for i, x := range table {
		xs[i] = float64(x)
	}
	one := w.Op("dynamic_slice", "slice_sizes = "+Ints([]int{1}), Type{array.I32, array.Shape{1}},
		w.List(array.I32, xs), id)
	return w.Op("reshape", "", Type{DType: array.I32}, one)
}
