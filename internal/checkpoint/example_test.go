package checkpoint_test

import (
	"context"
	"fmt"
	"os"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/mesh"
)

// A tensor whose rows two devices hold is read by three that hold columns.
func Example() {
	dir, _ := os.MkdirTemp("", "run")
	defer os.RemoveAll(dir)
	rows, _ := mesh.Split(mesh.On("dp"), nil).Layout(two(), []int{2, 3})
	w, _ := checkpoint.Sharded("w", rows, map[int]array.Array{
		0: array.FromSlice([]float32{1, 2, 3}, 1, 3),
		1: array.FromSlice([]float32{4, 5, 6}, 1, 3),
	})
	meta := checkpoint.Meta{Step: 12, Sample: 3072,
		Scalars: []checkpoint.Scalar{checkpoint.Float("loss_scale", 1024)}}
	k, _ := checkpoint.NewKeeper(checkpoint.Config{Dir: dir})
	_ = k.Save(context.Background(), checkpoint.State{Meta: meta, Tensors: []checkpoint.Tensor{w}})
	_ = k.Close()

	r, _ := checkpoint.Open(dir, checkpoint.OpenConfig{})
	defer r.Close()
	three, _ := mesh.Parse("tp=3")
	columns, _ := mesh.Split(nil, mesh.On("tp")).Layout(three, []int{2, 3})
	parts, _ := r.ReadLayout("w", columns)
	scale, _ := r.Meta().Float("loss_scale")
	fmt.Println(r.Meta().Step, scale, parts[0], parts[1], parts[2])
	// Output: 12 1024 f32[2,1]{1 4} f32[2,1]{2 5} f32[2,1]{3 6}
}

func two() *mesh.Mesh {
	m, _ := mesh.Parse("dp=2")
	return m
}
