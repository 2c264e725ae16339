package inproc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

// body is what one rank does with the group of all ranks.
type body func(r comm.Comm, all *comm.Group) error

// runAll runs body on n ranks. A hang is a failed test, not a killed one.
func runAll(t *testing.T, ctx context.Context, n int, f body) error {
	t.Helper()
	w, err := inproc.New(n)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- w.Run(ctx, func(_ context.Context, r comm.Comm) error {
			g, err := r.Group(nil)
			if err != nil {
				return err
			}
			return f(r, g)
		})
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute): // far more than any machine needs
		t.Fatal("the world hangs")
		return nil
	}
}

var none array.Array

func f32(shape ...int) array.Array { return array.New(array.F32, shape...) }

func wait(p *comm.Pending) error {
	_, err := p.Wait()
	return err
}

// TestMismatch has rank 1 of two do something else than rank 0.
func TestMismatch(t *testing.T) {
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
			err := runAll(t, context.Background(), 2, func(r comm.Comm, g *comm.Group) error {
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

// TestMismatchText pins the words of the error.
func TestMismatchText(t *testing.T) {
	first := make(chan struct{})
	err := runAll(t, context.Background(), 3, func(r comm.Comm, g *comm.Group) error {
		for range 7 {
			if err := g.Barrier(); err != nil {
				return err
			}
		}
		if r.ID() == 0 {
			p := g.StartAllReduce(none, f32(4, 8), comm.Sum)
			close(first)
			return wait(p)
		}
		<-first
		return wait(g.StartAllGather(none, f32(4, 8), 1))
	})
	other := strings.ReplaceAll(fmt.Sprint(err), "rank 1", "rank 2") // whichever of the two came first
	want := "collective: kinds differ: rank 2 is in all_gather #7 f32[4,8] dim 1 of group [0 1 2], " +
		"rank 0 is in all_reduce #7 f32[4,8] sum of group [0 1 2]"
	if other != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
}

// TestDeadlock has ranks wait for each other in ways that no two calls show.
func TestDeadlock(t *testing.T) {
	tests := []struct {
		name string
		n    int
		f    body
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
		}, []string{"rank 3 is in recv #0", "waits for rank 0", "rank 0 is in all_reduce #0 f32[2] sum of group [0 1 2 3]"}},
		{"different groups", 3, func(r comm.Comm, _ *comm.Group) error {
			pair, err := r.Group([][]int{{0, 1}, {1, 2}, {2, 0}}[r.ID()])
			if err != nil {
				return err
			}
			return pair.Barrier()
		}, []string{"group [0 1] and waits for rank 1", "group [1 2] and waits for rank 2", "group [2 0] and waits for rank 0"}},
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
		}, []string{"rank 1 is in barrier #0", "rank 0 has finished"}},
		{"never waited for", 2, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				g.StartAllReduce(none, f32(2), comm.Sum)
			}
			return nil
		}, []string{"rank 0 is in all_reduce #0", "rank 1 has finished"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := runAll(t, context.Background(), test.n, test.f)
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

// TestPartialDeadlock finds two stuck ranks while a third is busy.
func TestPartialDeadlock(t *testing.T) {
	stuck := make(chan struct{})
	err := runAll(t, context.Background(), 3, func(r comm.Comm, g *comm.Group) error {
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

func TestPeerError(t *testing.T) {
	boom := errors.New("boom")
	fail := map[string]func() error{
		"error": func() error { return boom },
		"panic": func() error { panic(boom) },
		"exit":  func() error { runtime.Goexit(); return nil },
	}
	for name, f := range fail {
		t.Run(name, func(t *testing.T) {
			seen := make([]error, 3)
			err := runAll(t, context.Background(), 3, func(r comm.Comm, g *comm.Group) error {
				if r.ID() == 2 {
					return f()
				}
				seen[r.ID()] = g.Barrier()
				return fmt.Errorf("step 1: %w", seen[r.ID()])
			})
			for _, e := range append(seen[:2], err) {
				var peer *comm.PeerError
				if !errors.As(e, &peer) || peer.Rank != 2 || name != "exit" && !errors.Is(e, boom) {
					t.Errorf("got %v, want the failure of rank 2", e)
				}
			}
			if strings.Contains(err.Error(), "step 1") {
				t.Errorf("got %v, want no echoes", err)
			}
		})
	}
}

// TestOwnErrors keeps what several ranks report by themselves.
func TestOwnErrors(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	err := runAll(t, context.Background(), 2, func(r comm.Comm, g *comm.Group) error {
		return []error{a, b}[r.ID()]
	})
	if !errors.Is(err, a) || !errors.Is(err, b) {
		t.Errorf("got %v, want both errors", err)
	}
}

func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, when := range []time.Duration{-1, 0, 5 * time.Millisecond} {
		ctx, cancel := context.WithCancelCause(context.Background())
		if when < 0 {
			cancel(cause)
		} else {
			time.AfterFunc(when, func() { cancel(cause) })
		}
		err := runAll(t, ctx, 3, func(r comm.Comm, g *comm.Group) error {
			if r.ID() == 0 {
				<-ctx.Done() // keeps the others waiting
				return ctx.Err()
			}
			return g.Barrier()
		})
		if !errors.Is(err, cause) {
			t.Errorf("after %v: got %v, want %v", when, err, cause)
		}
	}
}

// TestWorkerContext: a worker that computes learns of a failure from its context.
func TestWorkerContext(t *testing.T) {
	w, err := inproc.New(2)
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err = w.Run(context.Background(), func(ctx context.Context, r comm.Comm) error {
		if r.ID() == 0 {
			return boom
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), boom) {
			t.Errorf("cause: got %v, want %v", context.Cause(ctx), boom)
		}
		return ctx.Err()
	})
	var peer *comm.PeerError
	if !errors.As(err, &peer) || peer.Rank != 0 {
		t.Errorf("got %v, want the failure of rank 0", err)
	}
}
