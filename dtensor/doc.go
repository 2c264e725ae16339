// Package dtensor has eager tensors on meshes: every device of a world holds its part, ops on them run on all
// devices, and what must move moves. A tensor is laid on a mesh by a placement for each axis, or by a Spec;
// gradients move back.
//
//	w, err := dtensor.NewWorld(device, 4)
//	m, err := mesh.New([]mesh.Axis{{Name: "dp", Size: 2}, {Name: "tp", Size: 2}})
//	x := dtensor.Shard(w.Tensor(a), m, mesh.Shard(0), mesh.Replicate())
//	y := op.Matmul(x, weight)       // on four devices
//
// Training by a Strategy needs none of it: it is for code that says itself where tensors are.
package dtensor
