// Package executor defines what a training run is and the interface that runs it.
//
// A Config has the parameters, the loss and the optimizer; its methods trace them into programs. An Executor
// takes the steps of a config on devices and holds the state, the parameters and the optimizer's slots. Its
// implementations are in packages below: local (one device of the host), branches (two), tapes (many
// in-process devices) and accelerator (a backend such as XLA). Everything that trains uses the interface
// only.
package executor
