// Package executor says what a training run is and what runs it.
//
// A Config is the parameters, the loss and the optimizer; its methods trace them into programs. An Executor
// takes the steps of a config on devices and keeps the state there, the parameters and the optimizer's slots.
// There are three: package local on one device of the host, package tapes on many of them, package
// accelerator on the devices of a backend such as XLA. Whoever trains speaks to the interface alone.
package executor
