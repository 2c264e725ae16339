// Package quant knows matrices of small integers in groups: how floats are rounded to them, and how
// checkpoints of compressed-tensors, GPTQ and AWQ store them.
//
//	m := quant.Round(quant.Config{Bits: 4, Group: 32}, w, out, in)
//	m.Row(row, 3)
package quant
