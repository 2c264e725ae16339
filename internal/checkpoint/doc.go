// Package checkpoint saves the state of a training run and loads it back, under any other sharding.
//
// The one idea: a checkpoint does not depend on meshes or strategies. It is a list of logical tensors, each
// tiled by boxes, and the location of each box. A reader requests a box, which is assembled from the stored
// boxes that intersect it. So a state that eight devices wrote loads on one, on three, or under another
// strategy; a whole tensor is just the largest box.
//
// A checkpoint is a directory with a safetensors file for each device that wrote something, and a manifest.
// It is written under a temporary name and renamed after everything has reached the disk, so that it exists
// completely or not at all. Checksums detect later corruption: Open reports it and falls back to the previous
// checkpoint.
//
//	k, err := checkpoint.NewKeeper(checkpoint.Config{Dir: "runs/a", Keep: 3})
//	err = k.Save(ctx, checkpoint.State{Meta: meta, Tensors: tensors}) // copies, returns, writes in the background
//	err = k.Close()
//
//	r, err := checkpoint.Open("runs/a", checkpoint.OpenConfig{})
//	defer r.Close()
//	parts, err := r.ReadLayout("model.embed_tokens.weight", layout)   // by device
//
// docs/checkpoints.md describes the format and the guarantees.
package checkpoint
