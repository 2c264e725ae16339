//go:build !amd64 || noasm

package kernel

// groupedAsmSets returns no set: this build has no assembly.
func groupedAsmSets() []groupedSet { return nil }
