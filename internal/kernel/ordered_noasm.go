//go:build !amd64 || noasm

package kernel

// orderedAsmSets returns no set: this build has no assembly.
func orderedAsmSets() []orderedSet { return nil }
