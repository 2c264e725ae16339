// Package op holds every operation, each in one place: a builder function, and one struct whose fields are
// its attributes and whose methods are all there is to say of it: types, gradient, sharding rule, cost, CPU
// kernel, StableHLO and samples.
//
// The functions take and return Tensors, which are eager or traced; the code is the same.
//
// The package's example has a layer in them.
//
// Adding an op is one file and one line in list.go; the laws then test it without being told more.
package op
