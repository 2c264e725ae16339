// Package xla runs programs on whatever a PJRT plugin drives: a GPU, a TPU. A program is written as
// StableHLO, compiled whole by the plugin, and kept by its hash.
//
// Devices that share a program are its replicas: one module that knows the number of the device that runs it,
// compiled once for all of them and started on all by one call. XLA's own partitioner has no part in it.
//
// A plugin is loaded at run time. Without one, or in a binary built without cgo, Open says what is missing
// and everything else works.
//
//	b, err := xla.Open(xla.Config{})
//	exe, err := b.Compile(program, backend.Options{Donate: donated})
//	out, err := exe.Run(args)	// returns at once
//	a, err := out[0].Read()		// waits
package xla
