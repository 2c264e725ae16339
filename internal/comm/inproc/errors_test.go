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
	case <-time.After(10 * time.Minute): // far more than any machine needs
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
