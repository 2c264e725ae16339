// Package lower translates programs to StableHLO modules. One module serves all devices, and each op writes
// itself with its Emit method.
//
//	text, err := lower.Module(f, lower.ModuleConfig{Config: hlo.Config{Target: hlo.CUDA}})
//
// For CUDA it first finds groups of nodes for which this repository has a fused kernel, where XLA's own
// kernels would read the operands from memory several times. kernels.go chooses them for a program; norm.go,
// gated.go, loss.go, gatedproduct.go, rope.go, skinny.go and pagedattention.go each find one kind and write
// its call. They match an op by its role (op.RoleOf), never by its name.
package lower
