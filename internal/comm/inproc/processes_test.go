package inproc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

// job runs f for each of the processes that n ranks are assigned to, and returns what each reports.
func job(n, processes int, f func(w comm.World) error) []error {
	owner := make([]int, n)
	for rank := range owner {
		owner[rank] = rank % min(n, processes)
	}
	worlds, err := inproc.Processes(owner)
	if err != nil {
		return []error{err}
	}
	errs := make([]error, len(worlds))
	var all sync.WaitGroup
	for i, w := range worlds {
		all.Go(func() { errs[i] = f(w) })
	}
	all.Wait()
	return errs
}

func TestConformanceOfProcesses(t *testing.T) {
	for _, processes := range []int{2, 3} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			commtest.Run(t, func(n int, body func(comm.Comm) error) error {
				return errors.Join(job(n, processes, func(w comm.World) error {
					return w.Run(context.Background(), func(_ context.Context, c comm.Comm) error { return body(c) })
				})...)
			})
		})
	}
}

// TestFailureOfOneProcess: the failure of a rank is the same error in every process.
func TestFailureOfOneProcess(t *testing.T) {
	errs := job(4, 2, func(w comm.World) error {
		return w.Run(t.Context(), func(ctx context.Context, c comm.Comm) error {
			if c.ID() == 3 {
				return errors.New("out of paper")
			}
			g, err := c.Group(nil)
			if err != nil {
				return err
			}
			return g.Barrier()
		})
	})
	for process, err := range errs {
		var peer *comm.PeerError
		if !errors.As(err, &peer) || peer.Rank != 3 || err.Error() != "rank 3: out of paper" {
			t.Errorf("process %d: got %v", process, err)
		}
	}
}

// TestShare: after it every process has all parts, and where there is one process nothing moves.
func TestShare(t *testing.T) {
	parts := []comm.Part{
		{Rank: 2, DType: array.F32, Shape: array.Shape{3}},
		{Rank: 0, DType: array.F32, Shape: array.Shape{0, 2}},
		{Rank: 3, DType: array.F32, Shape: array.Shape{2, 2}},
	}
	value := func(i int) array.Array {
		a := f32(parts[i].Shape...)
		for k := range a.Len() {
			a.Set(k, float64(10*i+k))
		}
		return a
	}
	for _, processes := range []int{1, 2, 3, 4} {
		errs := job(4, processes, func(w comm.World) error {
			held := map[int]array.Array{}
			for i, p := range parts {
				if comm.IsLocal(w, p.Rank) {
					held[i] = value(i)
				}
			}
			all, err := comm.Share(t.Context(), w, parts, held)
			if err != nil {
				return err
			}
			for i := range parts {
				if got, want := all[i].String(), value(i).String(); got != want {
					t.Errorf("%d processes: process %d, part %d: got %s, want %s", processes, w.Process(), i, got, want)
				}
			}
			if n := w.Stats(comm.Local(w)[0]).Total().Calls; processes == 1 && n > 0 {
				t.Errorf("one process: %d messages, want none", n)
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%d processes: %v", processes, err)
		}
	}
}
