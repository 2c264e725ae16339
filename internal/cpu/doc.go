// Package cpu runs programs on the host with the ops' own kernels.
//
// A Session runs each op immediately and is the Scope of eager tensors. Compile plans a whole program's
// memory by liveness into one arena and runs it again and again without allocating.
//
//	s := cpu.NewDevice(cpu.Config{Threads: 2}).NewSession()
//	x := s.Tensor(array.FromSlice([]float32{1, 2}, 2))
//	y := op.Exp(x)          // computed now
//	a, err := cpu.Read(y)
package cpu
