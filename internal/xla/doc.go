// Package xla runs programs on the devices of a PJRT plugin, such as GPUs and TPUs. A program is lowered to
// StableHLO, compiled as a whole by the plugin, and cached by its hash.
//
// Devices that share a program are its replicas: one module, which can read its replica id, is compiled once
// for all of them and started on all by one call. XLA's own partitioner is not used.
//
// A plugin is loaded at run time. Without one, or in a binary built without cgo, Open returns an error that
// says what is missing, and everything else works.
//
//	b, err := xla.Open(xla.Config{})
//	exe, err := b.Compile(program, backend.Options{Donate: donated})
//	out, err := exe.Run(args)	// returns at once
//	a, err := out[0].Read()		// waits
package xla
