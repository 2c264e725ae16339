package commtest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

// RunErrors checks the errors that a world reports for incorrect programs. Each check calls world anew, since
// a world may be unusable after a failure.
func RunErrors(t *testing.T, world World) {
	t.Helper()
	t.Run("mismatches", func(t *testing.T) { mismatches(t, world) })
	t.Run("deadlocks", func(t *testing.T) { deadlocks(t, world) })
	t.Run("partial_deadlock", func(t *testing.T) { partialDeadlock(t, world) })
	t.Run("peer_errors", func(t *testing.T) { peerErrors(t, world) })
	t.Run("own_errors", func(t *testing.T) { ownErrors(t, world) })
}

// groupBody is what one rank does with the group of all ranks.
type groupBody func(r comm.Comm, all *comm.Group) error

// runAll runs body on n ranks. A hang fails the test after a timeout instead of blocking the test binary.
func runAll(world World, n int, f groupBody) error {
	done := make(chan error, 1)
	go func() { done <- world(n, func(c comm.Comm) error { return f(c, everyone(c)) }) }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute): // far more than any machine needs
		return errors.New("the world hangs")
	}
}

var none array.Array

func f32(shape ...int) array.Array { return array.New(array.F32, shape...) }

func wait(p *comm.Pending) error {
	_, err := p.Wait()
	return err
}

// mismatches checks the errors when rank 1 of two makes a different call than rank 0.
func mismatches(t *testing.T, world World) {
	sum := func(x array.Array) func(g *comm.Group) *comm.Pending {
		return func(g *comm.Group) *comm.Pending { return g.StartAllReduce(none, x, comm.Sum) }
	}
	tests := []struct {
		name, what string
		a, b       func(g *comm.Group) *comm.Pending
	}{
		{"kind", "kinds differ", sum(f32(4, 8)),
			func(g *comm.Group) *comm.Pending { return g.StartAllGather(none, f32(4, 8), 0) }},
		{"barrier", "kinds differ", sum(f32(4)), (*comm.Group).StartBarrier},
		{"dtype", "dtypes differ", sum(f32(4)), sum(array.New(array.F64, 4))},
		{"shape", "shapes differ", sum(f32(4)), sum(f32(5))},
		{"dims of shape", "shapes differ", sum(f32(4)), sum(f32(4, 1))},
		{"reduction", "reductions differ", sum(f32(4)),
			func(g *comm.Group) *comm.Pending { return g.StartAllReduce(none, f32(4), comm.Max) }},
		{"gather dim", "dims differ",
			func(g *comm.Group) *comm.Pending { return g.StartAllGather(none, f32(4, 4), 0) },
			func(g *comm.Group) *comm.Pending { return g.StartAllGather(none, f32(4, 4), 1) }},
		{"gather shape", "shapes differ",
			func(g *comm.Group) *comm.Pending { return g.StartAllGather(none, f32(4, 4), 0) },
			func(g *comm.Group) *comm.Pending { return g.StartAllGather(none, f32(4, 5), 0) }},
		{"sizes", "sizes differ",
			func(g *comm.Group) *comm.Pending { return g.StartReduceScatter(none, f32(4), comm.Sum, 0, []int{1, 3}) },
			func(g *comm.Group) *comm.Pending { return g.StartReduceScatter(none, f32(4), comm.Sum, 0, []int{2, 2}) }},
		{"root", "roots differ",
			func(g *comm.Group) *comm.Pending { return g.StartBroadcast(none, f32(4), 0) },
			func(g *comm.Group) *comm.Pending { return g.StartBroadcast(none, f32(4), 1) }},
		{"pairs", "pairs differ",
			func(g *comm.Group) *comm.Pending {
				return g.StartPermute(none, f32(4), []comm.Pair{{Source: 0, Target: 1}})
			},
			func(g *comm.Group) *comm.Pending { return g.StartPermute(none, f32(4), nil) }},
		{"message", "shapes differ",
			func(g *comm.Group) *comm.Pending { return g.StartSend(f32(4), 1, 0) },
			func(g *comm.Group) *comm.Pending { return g.StartRecv(f32(5), 0, 0) }},
		{"destination", "destination of rank 1: got f32[4], want f32[8]",
			func(g *comm.Group) *comm.Pending { return g.StartBroadcast(none, f32(8), 0) },
			func(g *comm.Group) *comm.Pending { return g.StartBroadcast(f32(4), none, 0) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := runAll(world, 2, func(r comm.Comm, g *comm.Group) error {
				if r.ID() == 0 {
					return wait(test.a(g))
				}
				return wait(test.b(g))
			})
			var mismatch *comm.MismatchError
			if !errors.As(err, &mismatch) || !strings.HasPrefix(mismatch.What, test.what) {
				t.Fatalf("got %v, want a mismatch: %s", err, test.what)
			}
			if mismatch.Sides[0].Rank+mismatch.Sides[1].Rank != 1 ||
				strings.Count(err.Error(), "of group [0 1]") != 2 {
				t.Errorf("got %v, want both sides", err)
			}
		})
	}
}

// deadlocks checks that waits in a cycle are reported where any two calls by themselves look correct.
func deadlocks(t *testing.T, world World) {
	tests := []struct {
		name string
		n    int
		f    groupBody
		want []string
	}{
		{"opposite order of groups", 2, func(r comm.Comm, g *comm.Group) error {
			back, err := r.Group([]int{1, 0})
			if err != nil {
				return err
			}
			if r.ID() == 0 {
				g, back = back, g
			}
			return errors.Join(g.Barrier(), back.Barrier())
		}, []string{
			"rank 0 is in barrier #0 of group [1 0] and waits for rank 1",
			"rank 1 is in barrier #0 of group [0 1] and waits for rank 0",
		}},
		{"two sends", 2, func(r comm.Comm, g *comm.Group) error { return g.Send(f32(2), 1-r.ID(), 3) }, []string{
			"rank 0 is in send #0 f32[2] to 1 tag 3 of group [0 1] and waits for rank 1",
			"rank 1 is in send #0 f32[2] to 0 tag 3 of group [0 1] and waits for rank 0",
		}},
		{"tags", 2, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				return g.Send(f32(2), 1, 1)
			}
			return wait(g.StartRecv(f32(2), 0, 2))
		}, []string{"send #0 f32[2] to 1 tag 1", "recv #0 f32[2] from 0 tag 2"}},
		{"one elsewhere", 4, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 3 {
				return wait(g.StartRecv(f32(2), 0, 0))
			}
			return wait(g.StartAllReduce(none, f32(2), comm.Sum))
		}, []string{"rank 3 is in recv #0", "waits for rank 0",
			"rank 0 is in all_reduce #0 f32[2] sum of group [0 1 2 3]"}},
		{"different groups", 3, func(r comm.Comm, _ *comm.Group) error {
			pair, err := r.Group([][]int{{0, 1}, {1, 2}, {2, 0}}[r.ID()])
			if err != nil {
				return err
			}
			return pair.Barrier()
		}, []string{"group [0 1] and waits for rank 1", "group [1 2] and waits for rank 2",
			"group [2 0] and waits for rank 0"}},
		{"oneself", 1, func(r comm.Comm, g *comm.Group) error { return g.Send(f32(2), 0, 0) },
			[]string{"rank 0 is in send #0", "waits for rank 0"}},
		{"finished before", 2, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
			return g.Barrier()
		}, []string{"rank 1 is in barrier #0 of group [0 1] and waits for rank 0; rank 0 has finished"}},
		{"finished after", 3, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				time.Sleep(10 * time.Millisecond)
				return nil
			}
			return g.Barrier()
		}, []string{"is in barrier #0 of group [0 1 2]", "rank 0 has finished"}},
		{"never waited for", 2, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				g.StartAllReduce(none, f32(2), comm.Sum)
			}
			return nil
		}, []string{"rank 0 is in all_reduce #0", "rank 1 has finished"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := runAll(world, test.n, test.f)
			var deadlock *comm.DeadlockError
			if !errors.As(err, &deadlock) {
				t.Fatalf("got %v, want a deadlock", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to say %q", err, want)
				}
			}
		})
	}
}

// partialDeadlock checks that two deadlocked ranks are reported while a third is still busy.
func partialDeadlock(t *testing.T, world World) {
	stuck := make(chan struct{})
	err := runAll(world, 3, func(r comm.Comm, g *comm.Group) error {
		if r.ID() == 2 {
			<-stuck
			return nil
		}
		err := g.Send(f32(1), 1-r.ID(), 0)
		if r.ID() == 0 {
			close(stuck)
		}
		return err
	})
	var deadlock *comm.DeadlockError
	if !errors.As(err, &deadlock) || len(deadlock.Sides) != 2 {
		t.Fatalf("got %v, want a deadlock of two", err)
	}
}

// peerErrors checks that the failure of one rank is reported to its peers and to the caller.
func peerErrors(t *testing.T, world World) {
	boom := errors.New("boom")
	fail := map[string]func() error{
		"error": func() error { return boom },
		"panic": func() error { panic(boom) },
		"exit":  func() error { runtime.Goexit(); return nil },
	}
	for name, f := range fail {
		t.Run(name, func(t *testing.T) {
			seen := make([]error, 3)
			err := runAll(world, 3, func(r comm.Comm, g *comm.Group) error {
				if r.ID() == 2 {
					return f()
				}
				seen[r.ID()] = g.Barrier()
				return fmt.Errorf("step 1: %w", seen[r.ID()])
			})
			for _, e := range append(seen[:2], err) {
				var peer *comm.PeerError
				if !errors.As(e, &peer) || peer.Rank != 2 || name != "exit" && !strings.Contains(e.Error(), "boom") {
					t.Errorf("got %v, want the failure of rank 2", e)
				}
			}
			if strings.Contains(fmt.Sprint(err), "step 1") {
				t.Errorf("got %v, want no echoes", err)
			}
		})
	}
}

// ownErrors checks that the errors of several ranks are all reported.
func ownErrors(t *testing.T, world World) {
	err := runAll(world, 2, func(r comm.Comm, g *comm.Group) error {
		return []error{errors.New("no ink"), errors.New("no paper")}[r.ID()]
	})
	text := fmt.Sprint(err)
	if !strings.Contains(text, "rank 0: no ink") || !strings.Contains(text, "rank 1: no paper") {
		t.Errorf("got %v, want both errors", err)
	}
}
