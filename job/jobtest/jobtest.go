// Package jobtest is the suite that every job.Transport must pass, for those of other modules, too. Processes
// are goroutines of one here: each has its own Transport, which may reach the others in any way.
//
//	func TestTransport(t *testing.T) {
//		jobtest.Run(t, func(t *testing.T, n int) []job.Transport { ... })
//	}
package jobtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
	"github.com/galley-ml/galley/job"
)

// Connect makes the transports of n processes that can reach each other. The suite closes them.
type Connect func(t *testing.T, n int) []job.Transport

// hang is far more than any machine needs.
const hang = 10 * time.Minute

// Run holds a transport to the suite: notes come whole and in order, messages meet by their numbers in
// whatever order their ends start, every collective gives the bits that it must, on two and three processes,
// by notes and by messages, and programs that are wrong end everywhere with the same error.
func Run(t *testing.T, connect Connect) {
	t.Helper()
	t.Run("notes", func(t *testing.T) { notes(t, connect) })
	t.Run("messages", func(t *testing.T) { messages(t, connect) })
	for _, c := range []struct {
		processes int
		messages  bool
	}{{2, false}, {2, true}, {3, true}} {
		t.Run(fmt.Sprintf("collectives/%d/messages=%v", c.processes, c.messages), func(t *testing.T) {
			ps := join(connect(t, c.processes))
			if c.messages {
				for _, p := range ps {
					p.Lengths(-1, 40<<10)
				}
			}
			commtest.Run(t, func(n int, body func(comm.Comm) error) error {
				return errors.Join(runAll(t.Context(), ps, n, body)...)
			})
			closeAll(t, ps)
		})
	}
	t.Run("errors", func(t *testing.T) {
		commtest.RunErrors(t, func(n int, body func(comm.Comm) error) error {
			return alike(runAll(t.Context(), join(connect(t, 2)), n, body))
		})
	})
}

func join(ts []job.Transport) []*process.Process {
	var ps []*process.Process
	for _, t := range ts {
		ps = append(ps, process.Join(t))
	}
	return ps
}

// each runs f for every number below n at once. A hang is a failed test, not a killed one.
func each(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return errs
	case <-time.After(hang):
		panic("the job hangs")
	}
}

// runAll makes a world of n ranks in all processes and runs body on them.
func runAll(ctx context.Context, ps []*process.Process, n int, body func(comm.Comm) error) []error {
	owner := make([]int, n)
	for rank := range owner {
		owner[rank] = rank % len(ps)
	}
	return each(len(ps), func(i int) error {
		w, err := ps[i].NewWorld(owner)
		if err != nil {
			return err
		}
		return w.Run(ctx, func(_ context.Context, c comm.Comm) error { return body(c) })
	})
}

func closeAll(t *testing.T, ps []*process.Process) {
	t.Helper()
	for i, err := range each(len(ps), func(i int) error { return ps[i].Close() }) {
		if err != nil {
			t.Errorf("process %d: close: %v", i, err)
		}
	}
}

// alike returns the error of all processes, or one that says how they differ.
func alike(errs []error) error {
	for i, err := range errs {
		if fmt.Sprint(err) != fmt.Sprint(errs[0]) {
			return fmt.Errorf("process %d: got %v, want process 0's %v", i, err, errs[0])
		}
	}
	return errs[0]
}
