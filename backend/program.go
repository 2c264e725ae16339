package backend

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
)

// The input of a backend: a program of ops on one device's shards.
type (
	// Program is a list of nodes in executable order. Its last parameters may be captured: their values are
	// the host arrays of Captures, and runs do not pass them.
	Program = ir.Func
	// Node is an op with its operands and results; op.Run computes it on the host.
	Node = ir.Node
	// Type is a tensor's dtype and shape.
	Type = ir.Type
)

// StableHLO returns the programs of devices 0, 1 and so on as one module that they run as replicas, for
// compilers such as XLA. Donated parameters are marked with the result that reuses their memory.
func StableHLO(o Options, fs ...*Program) (string, error) {
	return lower.SPMD(fs, lower.ModuleConfig{Config: hlo.Config{Replicas: len(fs)},
		Donate: lower.Donations(fs[0], o.Donate)})
}
