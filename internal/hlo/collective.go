package hlo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Groups is the attributes of a collective among these groups of devices, all of one size: who talks to whom, and that
// the numbers are devices of the whole program.
func Groups(groups [][]int) string {
	rows := make([]string, len(groups))
	for i, g := range groups {
		rows[i] = list(g)
	}
	size := 0
	if len(groups) > 0 {
		size = len(groups[0])
	}
	return fmt.Sprintf("replica_groups = dense<[%s]> : tensor<%dx%dxi64>", strings.Join(rows, ", "), len(groups), size)
}

// Channel is the attribute by which the devices' parts of one collective find each other.
func (w *Writer) Channel() string {
	w.channels++
	return fmt.Sprintf("channel_handle = #stablehlo.channel_handle<handle = %d, type = 1>", w.channels)
}

// Combine writes a collective that folds elements with a binary op of the dialect.
func (w *Writer) Combine(name, attrs, binary string, x Ref, out Type) Ref {
	s := Type{DType: x.DType}
	region := fmt.Sprintf("    ^bb0(%%a: %s, %%b: %s):\n      %%r = \"stablehlo.%s\"(%%a, %%b) : (%s, %s) -> %s\n"+
		"      \"stablehlo.return\"(%%r) : (%s) -> ()\n", s, s, binary, s, s, s, s)
	return w.OpN(name, attrs, region, []Type{out}, x)[0]
}

// PerDevice is the entry of a table that belongs to the device that runs the program: an i32 scalar.
func (w *Writer) PerDevice(table []int) Ref {
	id := fmt.Sprintf("%%%d", w.next)
	w.next++
	fmt.Fprintf(&w.body, "    %s = \"stablehlo.partition_id\"() : () -> (tensor<ui32>)\n", id)
	at := Ref{Type{DType: array.I32}, fmt.Sprintf("%%%d", w.next)}
	w.next++
	fmt.Fprintf(&w.body, "    %s = \"stablehlo.convert\"(%s) : (tensor<ui32>) -> (tensor<i32>)\n", at.id, id)
	words := make([]string, len(table))
	for i, x := range table {
		words[i] = strconv.Itoa(x)
	}
	all := Type{array.I32, array.Shape{len(table)}}
	values := w.Op("constant", fmt.Sprintf("value = dense<[%s]> : %s", strings.Join(words, ", "), all), all)
	one := w.Op("dynamic_slice", "slice_sizes = "+Ints([]int{1}), Type{array.I32, array.Shape{1}}, values, at)
	return w.Op("reshape", "", Type{DType: array.I32}, one)
}
