// Package dtensor provides eager tensors on device meshes. Every device of a world holds its shard, ops run
// on all devices, and data moves as the placements require. A tensor is distributed by one placement per mesh
// axis, or by a Spec; gradients flow back through every move.
//
//	w, err := dtensor.NewWorld(device, 4)
//	m, err := mesh.New([]mesh.Axis{{Name: "dp", Size: 2}, {Name: "tp", Size: 2}})
//	x := dtensor.Shard(w.Tensor(a), m, mesh.Shard(0), mesh.Replicate())
//	y := op.Matmul(x, weight)       // on four devices
//
// Training with a Strategy does not need this package: it is for code that places tensors itself.
package dtensor
