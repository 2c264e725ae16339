//go:build !amd64 || noasm

package kernel

// gemmAsmSets returns no set: this build has no assembly.
func gemmAsmSets() []gemmSet { return nil }
