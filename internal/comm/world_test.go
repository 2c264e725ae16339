package comm_test

import (
	"context"
	"testing"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"pgregory.net/rapid"
)

// inProcess runs body on n ranks of a new world.
func inProcess(n int, body func(comm.Comm) error) error {
	w, err := comm.NewWorld(n)
	if err != nil {
		return err
	}
	return w.Run(context.Background(), func(_ context.Context, r *comm.Rank) error { return body(r) })
}

func TestConformance(t *testing.T) { commtest.Run(t, inProcess) }

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
