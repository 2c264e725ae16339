//go:build linux && !noasm

package jit

// call runs code with DI holding args.
//
//go:noescape
func call(code uintptr, args *uintptr)
