// Package random compares training on many devices with training on one, for models that nobody thought of:
// what a user writes is drawn at random, and so is the strategy. An Annotated program says itself where its
// tensors are.
package random
