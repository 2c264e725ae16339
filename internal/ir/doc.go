// Package ir defines programs: values, the nodes that compute them, functions, and their text form.
//
// A Func is immutable. It is made by a Builder, one op at a time, and a pass makes a new one with another
// Builder. A Value belongs to a Scope: in a Builder it is a name in a program, in an eager session it has
// data; the ops applied to it are the same.
//
//	b := ir.NewBuilder("main")
//	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{4, 6}})
//	y := ir.Apply(tanh{}, x)[0]
//	f, err := b.Build(y)
//	fmt.Print(f)
//	// func main(%0 "x": f32[4,6]) {
//	//   %1 = tanh %0 : f32[4,6]  # model.go:42
//	//   return %1
//	// }
package ir
