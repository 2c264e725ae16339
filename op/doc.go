// Package op defines every operation in one place each: a builder function, and a struct whose fields are its
// attributes and whose methods are its rules: types, gradient, sharding rule, cost, CPU kernel, StableHLO and
// samples.
//
// The functions take and return Tensors, which are eager or traced; the code is the same for both.
//
// The package's example builds a layer of them.
//
// Adding an op takes one file and one line in list.go; the laws then test it without further code.
package op
