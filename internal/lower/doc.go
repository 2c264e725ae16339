// Package lower writes programs as StableHLO modules: one for all devices, each op by its own Emit.
//
//	text, err := lower.Module(f, lower.ModuleConfig{Config: hlo.Config{Target: hlo.CUDA}})
//
// For CUDA it first finds nodes that one kernel of our own computes, where XLA's would read their rows again:
// kernels is how a program is written with them, norm, gated, loss, gatedproduct and rope each find one kind
// and write its call. They match what an op says of itself (op.RoleOf), never its name.
package lower
