package backend

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
)

// What a backend is handed: a program of ops on one device's parts.
type (
	// Program is nodes in an order in which they can run. Its last parameters may be captured: their values,
	// arrays of the host, are those of Captures, and no run is given them.
	Program = ir.Func
	// Node is an op with its operands and results; op.Run computes it on the host.
	Node = ir.Node
	// Type is a tensor's dtype and shape.
	Type = ir.Type
)

// StableHLO returns the programs of devices 0, 1 and so on as one module that all of them run as replicas,
// which compilers such as XLA take. Parameters that are donated are marked with the result whose memory they
// become.
func StableHLO(o Options, fs ...*Program) (string, error) {
	return lower.SPMD(fs, lower.ModuleConfig{Config: hlo.Config{Replicas: len(fs)},
		Donate: lower.Donations(fs[0], o.Donate)})
}
