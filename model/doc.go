// Package model is what is trained: parameters, what they make of a batch's inputs, and the loss of what they
// make. Language makes a Model of a language model, Func one of a function, Parallelize one with a plan of
// layers. Package galley has the same names; trainers and engines take them.
package model
