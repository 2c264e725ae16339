//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/process"
)

func init() { workers["library"] = libraryCalls }

// libraryCalls calls the library's own all-reduce between barriers of ours, as galley bench comm does: the
// notes of a barrier must be on their way before a call that waits for the other process.
func libraryCalls(p *process.Process, e *Engine) error {
	w, err := p.NewWorld([]int{0, 1})
	if err != nil {
		return err
	}
	return w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		g, err := c.Group(nil)
		if err != nil {
			return err
		}
		x, y := array.New(array.F32, 64), array.New(array.F32, 64)
		for i := range array.Data[float32](x) {
			array.Data[float32](x)[i] = float32(p.Rank() + 1)
		}
		for range 3000 {
			if err := g.Barrier(); err != nil {
				return err
			}
			if err := e.AllReduceF32(y.Bytes(), x.Bytes()); err != nil {
				return err
			}
			if got := array.Data[float32](y)[63]; got != 3 {
				return fmt.Errorf("sum: got %v, want 3", got)
			}
		}
		return nil
	})
}
