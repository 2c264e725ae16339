// Package random compares training on many devices with training on one, for random models: what a user could
// write is drawn at random, and so is the strategy. An Annotated program specifies the layouts of its tensors
// itself.
package random
