// Package packed holds weights in the layout that inference multiplies by: packed once when a model is
// loaded, in panels of 64 rows (16 where elements are integers of 8 or 4 bits), for one to many rows of
// activations alike. Every sum has one order, so a row's product does not depend on the rows beside it, nor
// on the processor.
//
//	w, err := packed.Pack(packed.F32, packed.Rows(a))
//	w.Multiply(pool, y, x, rows)
package packed
