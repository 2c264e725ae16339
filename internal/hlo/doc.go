// Package hlo writes StableHLO as text and reads it back. The text is MLIR's generic form, which every
// version of the MLIR parser accepts.
//
// A Writer collects one function; ops of package op emit themselves into it:
//
//	w := hlo.NewWriter(hlo.Config{})
//	x := w.Param(hlo.Type{DType: array.F32, Shape: array.Shape{2}})
//	y := w.Op("tanh", "", x.Type, x)
//	fmt.Print(w.Module("main", y))
//
// Parse reads what a Writer prints, Program.String prints it again, byte for byte, and Program.Verify checks
// the types of every operation; package interp runs it.
package hlo
