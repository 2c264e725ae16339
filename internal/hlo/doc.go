// Package hlo writes StableHLO as text, in MLIR's generic form, which every version of the parser reads.
//
//	w := hlo.NewWriter()
//	x := w.Param(hlo.Type{DType: array.F32, Shape: array.Shape{2}})
//	y := w.Op("tanh", "", x.Type, x)
//	fmt.Print(w.Module("main", y))
package hlo
