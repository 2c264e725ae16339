// Package safetensors reads and writes the safetensors format: named tensors in one file, or in the shards of
// a Hugging Face directory.
//
// A file is eight bytes of header length, a JSON header that says each tensor's dtype, shape and place, and
// the tensors' bytes, back to back and little-endian. The one idea: the header is checked whole when a file
// is opened, so that reading a tensor afterwards is one ReadAt of bytes that are known to be there; nothing
// else of the file is ever in memory. Writing goes to a temporary name first and takes its place by a rename,
// so that a reader sees the old file or the new one and never a part of one.
//
//	tensors := []safetensors.Named{{Name: "w", Array: array.FromSlice([]float32{1, 2, 3, 4}, 2, 2)}}
//	err := safetensors.Write("model.safetensors", tensors, map[string]string{"format": "pt"})
//	f, err := safetensors.Open("model.safetensors")
//	defer f.Close()
//	w, err := f.Read("w")               // f32[2,2]{1 2 3 4}
//	row, err := f.ReadRange("w", 1, 2)  // f32[1,2]{3 4}
package safetensors
