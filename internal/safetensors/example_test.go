package safetensors_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
)

func ExampleWriteDir() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	tensors := []safetensors.Named{
		{Name: "w", Array: array.FromSlice([]float32{1, 2, 3, 4}, 2, 2)},
		{Name: "b", Array: array.FromSlice([]float32{5, 6}, 2)},
	}
	if err := safetensors.WriteDir(dir, tensors, 16, nil); err != nil {
		fmt.Println(err)
		return
	}
	shards, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, shard := range shards {
		fmt.Println(filepath.Base(shard))
	}
	d, err := safetensors.OpenDir(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	row, err := d.ReadRange("w", 1, 2)
	fmt.Println(d.Names(), row, err)
	// Output:
	// model-00001-of-00002.safetensors
	// model-00002-of-00002.safetensors
	// [w b] f32[1,2]{3 4} <nil>
}
