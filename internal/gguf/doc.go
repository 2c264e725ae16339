// Package gguf reads and writes files of llama.cpp's format, version 3 (read: 2 too): metadata, then tensors
// whose rows are floats or blocks of small integers.
//
//	f, err := gguf.Open("model.gguf")
//	a, err := f.Read("token_embd.weight")
package gguf
