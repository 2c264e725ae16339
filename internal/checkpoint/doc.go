// Package checkpoint saves the state of a training run and reads it back, under any other way to split it.
//
// The one idea: a checkpoint says nothing of meshes or strategies. It is a list of logical tensors, each
// tiled by boxes, and where each box is. Whoever reads asks for the box that it wants, and gets it put
// together from the boxes that meet it. So a state that eight devices wrote loads on one, on three, or under
// another strategy, and whole tensors are the case of the largest box.
//
// A checkpoint is a directory with a safetensors file for each device that wrote something, and a manifest.
// It is written under a temporary name and gets its own by a rename after everything has reached the disk, so
// that it is there whole or not at all. What goes bad later, the checksums find: Open names it and takes the
// one before.
//
//	k, err := checkpoint.NewKeeper(checkpoint.Config{Dir: "runs/a", Keep: 3})
//	err = k.Save(ctx, checkpoint.State{Meta: meta, Tensors: tensors}) // copies, returns, writes in the background
//	err = k.Close()
//
//	r, err := checkpoint.Open("runs/a", checkpoint.OpenConfig{})
//	defer r.Close()
//	parts, err := r.ReadLayout("model.embed_tokens.weight", layout)   // by device
//
// docs/checkpoints.md has the format and the guarantees.
package checkpoint
