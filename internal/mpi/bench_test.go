//go:build (linux || darwin) && (amd64 || arm64)

package mpi

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/process"
)

func init() { workers["all_reduce"] = allReduceTimes }

// allReduceTimes prints medians of all-reduces of two processes, by turns ours and the library's own.
func allReduceTimes(p *process.Process, e *Engine) error {
	w, err := p.NewWorld([]int{0, 1})
	if err != nil {
		return err
	}
	for _, n := range []int{64, 4 << 10, 4 << 20, 64 << 20} {
		ours, theirs, err := medians(w, e, n, max(10, min(2000, 200<<20/n)))
		if err != nil {
			return err
		}
		if p.Rank() == 0 {
			fmt.Printf("all-reduce of %8d bytes: galley %v, MPI_Allreduce %v\n", n, ours, theirs)
		}
	}
	return nil
}

func medians(w comm.World, e *Engine, bytes, times int) (ours, theirs time.Duration, err error) {
	err = w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		g, err := c.Group(nil)
		if err != nil {
			return err
		}
		x, y := array.New(array.F32, bytes/4), array.New(array.F32, bytes/4)
		var a, b []time.Duration
		for range times {
			if err := g.Barrier(); err != nil {
				return err
			}
			start := time.Now()
			if _, err := g.AllReduce(y, x, comm.Sum); err != nil {
				return err
			}
			a = append(a, time.Since(start))
			if err := g.Barrier(); err != nil {
				return err
			}
			start = time.Now()
			if err := e.AllReduceF32(y.Bytes(), x.Bytes()); err != nil {
				return err
			}
			b = append(b, time.Since(start))
		}
		if c.ID() == 0 {
			slices.Sort(a)
			slices.Sort(b)
			ours, theirs = a[len(a)/2], b[len(b)/2]
		}
		return nil
	})
	return ours, theirs, err
}

// TestAllReduceTimes prints what all-reduces take; it judges nothing.
func TestAllReduceTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for _, l := range testLaunchers {
		t.Run(l.name, func(t *testing.T) {
			out, err := l.launch(t, 2, "all_reduce", "-test.run", "^TestWorker$", "-test.v")
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(out))
			}
			t.Log(out)
		})
	}
}
