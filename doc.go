// Package galley trains large models on many devices from single-device code.
//
// You write a model as functions of tensors. The same function runs eagerly, op by op, or is traced into a program that
// is differentiated, optimised, planned and compiled as a whole; the numbers are the same.
//
//	d := galley.CPU(galley.Config{})
//	s := d.NewSession()
//	x := s.Tensor(array.FromSlice([]float32{1, 2, 3}, 3)).Track()
//	y := op.Sum(op.Mul(op.Exp(x), x))
//	g := galley.Grad(y, x)[0]                       // eᵡ(1+x)
//
// ARCHITECTURE.md tells how it is built; package op lists what tensors can do, nn and models what is made of them.
package galley
