package inproc_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

func Example() {
	world, err := inproc.New(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	sums := make([]array.Array, 4)
	err = world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		pair, err := r.Group([]int{r.ID() &^ 1, r.ID() | 1})
		if err != nil {
			return err
		}
		x := array.FromSlice([]float32{float32(r.ID()), 1}, 2)
		sums[r.ID()], err = pair.AllReduce(array.Array{}, x, comm.Sum)
		return err
	})
	fmt.Println(sums[0], sums[3], err)
	fmt.Print(world.Stats(0))
	// Output:
	// f32[2]{1 2} f32[2]{5 2} <nil>
	// all_reduce: 1 calls, 8 bytes sent, 8 received
}

// A rank that does something else than its peers is an error on all of them.
func ExampleMismatchError() {
	world, err := inproc.New(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	started := make(chan struct{})
	err = world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		all, err := r.Group(nil)
		if err != nil {
			return err
		}
		x := array.New(array.F32, 4, 8)
		if r.ID() == 0 {
			p := all.StartAllReduce(array.Array{}, x, comm.Sum)
			close(started)
			_, err = p.Wait()
			return err
		}
		<-started
		_, err = all.AllGather(array.Array{}, x, 0)
		return err
	})
	fmt.Println(strings.ReplaceAll(err.Error(), ", rank", "\nrank"))
	// Output:
	// collective: kinds differ: rank 1 is in all_gather #0 f32[4,8] dim 0 of group [0 1]
	// rank 0 is in all_reduce #0 f32[4,8] sum of group [0 1]
}
