package inproc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"pgregory.net/rapid"
)

// inProcess runs body on n ranks of a new world.
func inProcess(n int, body func(comm.Comm) error) error {
	w, err := inproc.New(n)
	if err != nil {
		return err
	}
	return w.Run(context.Background(), func(_ context.Context, r comm.Comm) error { return body(r) })
}

func TestConformance(t *testing.T) { commtest.Run(t, inProcess) }

func TestErrors(t *testing.T) { commtest.RunErrors(t, inProcess) }

func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "ranks")
		steps := rapid.IntRange(0, 30).Draw(t, "steps")
		p := commtest.RandomProgram(rapid.Uint64().Draw(t, "seed"), n, steps)
		if err := inProcess(n, p.Run); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
	})
}

// TestPanicInPlan: a bug of ours ends the collective for all members.
func TestPanicInPlan(t *testing.T) {
	err := runAll(t, t.Context(), 2, func(c comm.Comm, g *comm.Group) error {
		// A hand-made call that Check would refuse: the plan indexes its sizes.
		_, err := c.Start(&comm.Call{Kind: comm.AllToAll, Group: g, In: f32(2)}).Wait()
		return err
	})
	var bug *comm.PanicError
	if !errors.As(err, &bug) {
		t.Errorf("got %v, want a panic", err)
	}
}
