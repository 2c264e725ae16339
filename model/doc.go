// Package model defines what is trained: a Model has parameters and a forward function, and a Loss turns its
// outputs into a scalar. Language adapts a language model, Func a function, Parallelize attaches a plan of
// layers. Package galley re-exports these names.
package model
