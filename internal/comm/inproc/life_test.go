package inproc_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"pgregory.net/rapid"
)

// TestOperandIsFree writes to an operand as soon as Wait returns: the race detector and the sums tell if a
// peer still reads it.
func TestOperandIsFree(t *testing.T) {
	const n, k = 200_000, 4
	err := runAll(t, context.Background(), k, func(r comm.Comm, g *comm.Group) error {
		x, dst := f32(n), f32(n)
		for step := range 10 {
			data := array.Data[float32](x)
			for i := range data {
				data[i] = float32(step + r.ID())
			}
			got, err := g.AllReduce(dst, x, comm.Sum)
			if err != nil {
				return err
			}
			clear(data)
			for i, v := range array.Data[float32](got) {
				if want := float32(k*step + 6); v != want {
					t.Errorf("step %d, element %d: got %v, want %v", step, i, v, want)
					return nil
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBackground starts large work on all ranks and lets only one wait, which must not need the others.
func TestBackground(t *testing.T) {
	over := make(chan struct{})
	err := runAll(t, context.Background(), 3, func(r comm.Comm, g *comm.Group) error {
		p := g.StartAllReduce(none, f32(1<<20), comm.Sum)
		if r.ID() == 0 {
			defer close(over)
		} else {
			<-over // busy with something else
		}
		return wait(p)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNeverWaited: a collective that all ranks start ends by itself, before Run returns.
func TestNeverWaited(t *testing.T) {
	dst := make([]array.Array, 2)
	err := runAll(t, context.Background(), 2, func(r comm.Comm, g *comm.Group) error {
		x := f32(1 << 18)
		for i := range x.Len() {
			array.Data[float32](x)[i] = 1
		}
		dst[r.ID()] = f32(1 << 18)
		g.StartAllReduce(dst[r.ID()], x, comm.Sum)
		return nil
	})
	if err != nil || dst[0].At(1<<18-1) != 2 || dst[1].At(0) != 2 {
		t.Errorf("got %v %v %v", err, dst[0], dst[1])
	}
}

// TestWaitTwice: a Pending keeps its result.
func TestWaitTwice(t *testing.T) {
	err := runAll(t, context.Background(), 2, func(r comm.Comm, g *comm.Group) error {
		p := g.StartAllGather(none, f32(1+r.ID()), 0)
		a, err := p.Wait()
		b, again := p.Wait()
		if &a.Bytes()[0] != &b.Bytes()[0] {
			t.Error("second Wait: got another array")
		}
		return errors.Join(err, again)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyTags: lanes of messages do not pile up. What is seen is that sequences start anew.
func TestManyTags(t *testing.T) {
	err := runAll(t, context.Background(), 2, func(r comm.Comm, g *comm.Group) error {
		for i := range 1000 {
			if r.ID() == 0 {
				if err := g.Send(array.Scalar(int32(i)), 1, i%7); err != nil {
					return err
				}
			} else if got, err := g.Recv(array.New(array.I32), 0, i%7); err != nil || got.At(0) != float64(i) {
				t.Errorf("message %d: got %v %v", i, got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunsAreIndependent overlaps two runs of one world and one after a failure; the statistics add up.
func TestRunsAreIndependent(t *testing.T) {
	w, err := inproc.New(2)
	if err != nil {
		t.Fatal(err)
	}
	barrier := func(_ context.Context, r comm.Comm) error {
		g, err := r.Group(nil)
		if err != nil {
			return err
		}
		return g.Barrier()
	}
	other := make(chan error)
	go func() { other <- w.Run(context.Background(), barrier) }()
	bad := w.Run(context.Background(), func(context.Context, comm.Comm) error { return errors.New("bad") })
	if err := errors.Join(<-other, w.Run(context.Background(), barrier)); err != nil || bad == nil {
		t.Errorf("got %v and %v, want none and one", err, bad)
	}
	if got := w.Stats(1).Of(comm.Barrier).Calls; got != 2 {
		t.Errorf("barriers: got %d, want 2", got)
	}
	if _, err := inproc.New(0); err == nil {
		t.Error("world of 0: got no error")
	}
}

// astray is a Comm that makes a barrier of one of its calls.
type astray struct {
	comm.Comm
	at    int // which call
	wrong bool
}

func (a *astray) Group(ranks []int) (*comm.Group, error) { return comm.NewGroup(a, ranks) }

func (a *astray) Start(c *comm.Call) *comm.Pending {
	a.at--
	if a.at == -1 && c.Group.Size() > 1 && c.Kind != comm.Barrier {
		a.wrong = true
		return a.Comm.Start(&comm.Call{Kind: comm.Barrier, Group: c.Group})
	}
	return a.Comm.Start(c)
}

// TestWrongPrograms has one rank do another collective than its peers at a random place: an error on all
// paths, and never a hang.
func TestWrongPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(rt, "ranks")
		p := commtest.RandomProgram(rapid.Uint64().Draw(rt, "seed"), n, 15)
		rank, a := rapid.IntRange(0, n-1).Draw(rt, "rank"), astray{at: rapid.IntRange(0, 8).Draw(rt, "at")}
		err := runAll(t, context.Background(), n, func(r comm.Comm, _ *comm.Group) error {
			if r.ID() != rank {
				return p.Run(r)
			}
			a.Comm = r
			return p.Run(&a)
		})
		if (err != nil) != a.wrong {
			rt.Fatalf("wrong: %v: got %v\n%v", a.wrong, err, p)
		}
	})
}

// TestCancelledPrograms cancels random programs at random times; whatever they return, they return.
func TestCancelledPrograms(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(500))*time.Microsecond)
		p := commtest.RandomProgram(seed, 4, 40)
		_ = runAll(t, ctx, 4, func(r comm.Comm, _ *comm.Group) error { return p.Run(r) })
		cancel()
	}
}
