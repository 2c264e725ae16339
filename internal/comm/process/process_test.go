package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
	"pgregory.net/rapid"
)

// job is processes that a loop-back transport connects.
type job struct {
	net       *commtest.Loopback
	processes []*process.Process
}

func newJob(processes int, delay time.Duration) *job {
	j := &job{net: commtest.NewLoopback(processes, delay)}
	for i := range processes {
		j.processes = append(j.processes, process.Join(j.net.Transport(i)))
	}
	return j
}

// each runs f in every process and returns what each reports. A hang is a failed test, not a killed one.
func (j *job) each(f func(p *process.Process) error) []error {
	errs := make([]error, len(j.processes))
	var all sync.WaitGroup
	for i, p := range j.processes {
		all.Go(func() { errs[i] = f(p) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
		return errs
	case <-time.After(10 * time.Minute): // far more than any machine needs
		panic("the job hangs")
	}
}

// run makes a world of n ranks in all processes and runs body on them.
func (j *job) run(ctx context.Context, owner []int, body func(comm.Comm) error) []error {
	return j.each(func(p *process.Process) error {
		w, err := p.NewWorld(owner)
		if err != nil {
			return err
		}
		return w.Run(ctx, func(_ context.Context, c comm.Comm) error { return body(c) })
	})
}

// deal gives ranks to processes: one after the other, or in blocks.
func deal(n, processes int, blocks bool) []int {
	owner := make([]int, n)
	for rank := range owner {
		owner[rank] = rank % processes
		if blocks {
			owner[rank] = rank * min(n, processes) / n
		}
	}
	return owner
}

// TestConformance holds worlds of several processes to the suite: with operands in notes, and in messages
// alone and in many segments.
func TestConformance(t *testing.T) {
	for i, c := range []struct {
		processes        int
		messages, blocks bool
	}{{2, false, false}, {2, true, true}, {3, true, false}, {4, false, true}, {4, true, false}} {
		t.Run(fmt.Sprintf("%d/messages=%v", c.processes, c.messages), func(t *testing.T) {
			if testing.Short() && i%2 == 1 {
				t.Skip("short")
			}
			j := newJob(c.processes, 50*time.Microsecond)
			if c.messages {
				for _, p := range j.processes {
					p.Lengths(-1, 40<<10)
				}
			}
			commtest.Run(t, func(n int, body func(comm.Comm) error) error {
				return errors.Join(j.run(t.Context(), deal(n, c.processes, c.blocks), body)...)
			})
			if n := j.net.Left(); n > 0 {
				t.Errorf("%d messages have one end only", n)
			}
		})
	}
}

// TestErrors: what is wrong is the same error in every process, with operands in notes and in messages, some
// of which are under way by then.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		processes int
		messages  bool
	}{{2, false}, {2, true}, {3, false}} {
		t.Run(fmt.Sprintf("%d/messages=%v", c.processes, c.messages), func(t *testing.T) {
			commtest.RunErrors(t, func(n int, body func(comm.Comm) error) error {
				j := newJob(c.processes, 0)
				for _, p := range j.processes {
					if c.messages {
						p.Lengths(-1, 40<<10)
					}
				}
				return alike(j.run(t.Context(), deal(n, c.processes, false), body))
			})
		})
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

// TestWrongPrograms has one rank do another collective than its peers at a random place: the same error in
// all processes, and never a hang.
func TestWrongPrograms(t *testing.T) {
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n, processes := 2+rng.IntN(5), 2+rng.IntN(3)
		p := commtest.RandomProgram(seed, n, 15)
		rank, a := rng.IntN(n), astray{at: rng.IntN(8)}
		errs := newJob(processes, 0).run(t.Context(), deal(n, processes, seed%2 == 0), func(r comm.Comm) error {
			if r.ID() != rank {
				return p.Run(r)
			}
			a.Comm = r
			return p.Run(&a)
		})
		err := alike(errs)
		if (err != nil) != a.wrong || err != nil && strings.Contains(err.Error(), "want process 0") {
			t.Errorf("seed %d: wrong: %v: got %v\n%v", seed, a.wrong, err, p)
		}
	}
}

// TestCancelledPrograms cancels random programs at random times in one process; whatever they return, they
// return, and all of them.
func TestCancelledPrograms(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := commtest.RandomProgram(seed, 4, 40)
		after := time.Duration(rng.IntN(2000)) * time.Microsecond
		errs := newJob(2, 0).each(func(q *process.Process) error {
			ctx := t.Context()
			if q.Rank() == 1 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, after)
				defer cancel()
			}
			w, err := q.NewWorld([]int{0, 1, 0, 1})
			if err != nil {
				return err
			}
			return w.Run(ctx, func(_ context.Context, c comm.Comm) error { return p.Run(c) })
		})
		if err := alike(errs); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("seed %d: got %v", seed, err)
		}
	}
}

// TestLost: a process that is lost is named by all that are left, and later runs say the same.
func TestLost(t *testing.T) {
	j := newJob(3, 0)
	errs := j.each(func(p *process.Process) error {
		w, err := p.NewWorld([]int{0, 1, 2})
		if err != nil {
			return err
		}
		worker := func(_ context.Context, c comm.Comm) error {
			g, err := c.Group(nil)
			if err != nil {
				return err
			}
			if err := g.Barrier(); err != nil || c.ID() != 2 {
				return errors.Join(err, g.Barrier())
			}
			j.net.Lose(2)
			return nil
		}
		if p.Rank() == 2 {
			go func() { _ = w.Run(context.Background(), worker) }() // it hears of nothing any more
			return nil
		}
		first := w.Run(t.Context(), worker)
		if again := w.Run(t.Context(), worker); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("process %d: later: got %v, want %v", p.Rank(), again, first)
		}
		return first
	})
	for _, i := range []int{0, 1} {
		if fmt.Sprint(errs[i]) != "process 2 is lost: the connection is closed" {
			t.Errorf("process %d: got %v", i, errs[i])
		}
	}
}

// TestSilent: a process that says nothing is named, with what others wait for.
func TestSilent(t *testing.T) {
	j := newJob(2, 0)
	j.processes[0].SetPatience(time.Second)
	errs := j.each(func(p *process.Process) error {
		w, err := p.NewWorld([]int{0, 1})
		if err != nil {
			return err
		}
		if p.Rank() == 1 {
			j.net.Mute(1)
			return nil
		}
		return w.Run(t.Context(), func(_ context.Context, c comm.Comm) error {
			g, err := c.Group(nil)
			if err != nil {
				return err
			}
			return g.Barrier()
		})
	})
	want := "process 1 is lost: it has not answered for 1s; " +
		"rank 0 is in barrier #0 of group [0 1] and waits for rank 1"
	if fmt.Sprint(errs[0]) != want {
		t.Errorf("got %v, want %s", errs[0], want)
	}
}

// TestExchange: all processes get what all give, streams know nothing of each other, and a process that
// leaves with an error ends the wait for it.
func TestExchange(t *testing.T) {
	j := newJob(3, 50*time.Microsecond)
	errs := j.each(func(p *process.Process) error {
		var streams sync.WaitGroup
		for stream := range 2 {
			streams.Go(func() {
				for i := range 30 {
					text := fmt.Appendf(nil, "%d.%d of %d", stream, i, p.Rank())
					got, err := p.Exchange(process.Stream(stream), text)
					want := fmt.Sprintf("%d.%d of 2", stream, i)
					if err != nil || string(got[2]) != want {
						t.Errorf("got %q and %v, want %q", got, err, want)
					}
				}
			})
		}
		streams.Wait()
		long, err := p.Exchange(0, make([]byte, 100_000*p.Rank()))
		if err == nil && len(long[2]) != 200_000 { // process 1 may have left before process 2's bytes are here
			t.Errorf("long: got %d bytes", len(long[2]))
		}
		if p.Rank() == 1 {
			err = errors.New("no data here")
		} else if _, err = p.Exchange(0, nil); err == nil {
			t.Error("got what process 1 never gave")
		}
		for q, e := range p.Leave(err) {
			if q != p.Rank() && !strings.Contains(fmt.Sprint(e), "no data here") {
				t.Errorf("process %d of process %d: got %v", p.Rank(), q, e)
			}
		}
		return err
	})
	for _, i := range []int{0, 2} {
		if fmt.Sprint(errs[i]) != "process 1: no data here" {
			t.Errorf("process %d: got %v", i, errs[i])
		}
	}
}

// TestLeaveAfterRun: a process that leaves right after a run does not take that run from those that have
// heard of its end, though not yet handled it.
func TestLeaveAfterRun(t *testing.T) {
	for range 200 {
		j := newJob(6, 0)
		for i, err := range j.each(func(p *process.Process) error {
			w, err := p.NewWorld(deal(6, 6, true))
			if err == nil {
				err = w.Run(t.Context(), func(_ context.Context, c comm.Comm) error { return nil })
			}
			p.Leave(nil)
			return err
		}) {
			if err != nil {
				t.Fatalf("process %d: %v", i, err)
			}
		}
	}
}

// TestTell: no process goes on before the first has told why the job ends, unless the first is lost.
func TestTell(t *testing.T) {
	var told atomic.Bool
	newJob(3, 50*time.Microsecond).each(func(p *process.Process) error {
		p.Leave(errors.New("out of paper"))
		p.Tell(func() {
			time.Sleep(10 * time.Millisecond)
			told.Store(true)
		})
		if !told.Load() {
			t.Errorf("process %d went on before", p.Rank())
		}
		return nil
	})
}

// TestValues: what one process puts all get, those that ask first wait, and a process that leaves ends the
// wait for what nobody has put.
func TestValues(t *testing.T) {
	j := newJob(3, 50*time.Microsecond)
	j.each(func(p *process.Process) error {
		if _, ok := p.TryGet("nobody's"); ok {
			t.Error("got what nobody put")
		}
		own := fmt.Sprint("of ", p.Rank())
		if err := p.Put(own, bytes.Repeat([]byte{byte(p.Rank())}, 50_000)); err != nil {
			t.Error(err)
		}
		if err := p.Put(own, nil); err == nil {
			t.Error("a key has two values")
		}
		for q := range 3 {
			got, err := p.Get(t.Context(), fmt.Sprint("of ", q))
			if err != nil || len(got) != 50_000 || got[49_999] != byte(q) {
				t.Errorf("process %d: got %d bytes and %v of process %d", p.Rank(), len(got), err, q)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.Get(short, "nobody's"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("process %d: got %v, want the end of the time", p.Rank(), err)
		}
		if _, err := p.Exchange(0, nil); err != nil { // nobody leaves before
			t.Error(err)
		}
		if p.Rank() == 1 {
			p.Leave(errors.New("out of paper"))
		} else if _, err := p.Get(t.Context(), "nobody's"); !strings.Contains(fmt.Sprint(err), "out of paper") {
			t.Errorf("process %d: got %v, want what process 1 left with", p.Rank(), err)
		} else {
			p.Leave(err)
		}
		return nil
	})
}

// TestSuccessiveRuns: runs follow each other without a gap, and worlds of one job know nothing of each other.
func TestSuccessiveRuns(t *testing.T) {
	j := newJob(3, 50*time.Microsecond)
	errs := j.each(func(p *process.Process) error {
		a, err := p.NewWorld([]int{0, 1, 2})
		if err != nil {
			return err
		}
		b, err := p.NewWorld([]int{2, 0})
		if err != nil {
			return err
		}
		for i := range 50 {
			for _, w := range []comm.World{a, b} {
				program := commtest.RandomProgram(uint64(i), w.Size(), 2)
				err := w.Run(t.Context(), func(_ context.Context, c comm.Comm) error { return program.Run(c) })
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestRandomPrograms deals random ranks to random processes.
func TestRandomPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes := rapid.IntRange(1, 4).Draw(t, "processes")
		owner := rapid.SliceOfN(rapid.IntRange(0, processes-1), 1, 8).Draw(t, "owner")
		steps := rapid.IntRange(0, 30).Draw(t, "steps")
		p := commtest.RandomProgram(rapid.Uint64().Draw(t, "seed"), len(owner), steps)
		j := newJob(processes, 100*time.Microsecond)
		if err := errors.Join(j.run(context.Background(), owner, p.Run)...); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
	})
}
