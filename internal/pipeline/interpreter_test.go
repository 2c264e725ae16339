package pipeline

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// interpret runs a schedule with one goroutine per rank and says whether it came to its end. It knows nothing
// of the checker: every rank takes its actions in turn, and the numbers that it computes say whether it had
// the right operands. Time in the bubble of synctest only passes when every goroutine waits, so a deadlock is
// found, not guessed.
func interpret(t *testing.T, s *Schedule, m machine) (done bool, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		errs := make([]error, len(s.Ranks))
		var all sync.WaitGroup
		for r, actions := range s.Ranks {
			all.Go(func() {
				w := worker{s: s, m: m, rank: r, have: map[Action]int{}}
				for _, a := range actions {
					if errs[r] = w.do(ctx, a); errs[r] != nil {
						return
					}
				}
			})
		}
		ended := make(chan bool)
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
			done = true
		case <-time.After(time.Hour):
			cancel()
			<-ended
		}
		for r, e := range errs {
			if done && e != nil {
				err = fmt.Errorf("rank %d: %w", r, e)
			}
		}
	})
	return done, err
}

// machine carries messages.
type machine interface {
	send(ctx context.Context, from, to int, a Action, value int) error
	recv(ctx context.Context, from, to int, a Action) (int, error)
}

// worker is one rank. Values are made up so that each depends on how it should be made: a forward adds its
// stage.
type worker struct {
	s    *Schedule
	m    machine
	rank int
	have map[Action]int // results by the action that makes them; receives make what they receive
}

// input returns what a stage's forward should get, and gradient what its backward should.
func input(stage, micro int) int {
	v := 1000 * micro
	for k := range stage {
		v += k
	}
	return v
}

func gradient(stages, stage, micro int) int {
	v := -1000 * micro
	for k := stage + 1; k < stages; k++ {
		v -= k + 1
	}
	return v
}

func (w *worker) do(ctx context.Context, a Action) error {
	a.Joined = false
	switch a.Kind {
	case Forward:
		x, err := w.operand(ctx, a, RecvForward, act(a.Stage-1, Forward, a.Micro), a.Stage == 0)
		if err != nil {
			return err
		}
		if x != input(a.Stage, a.Micro) {
			return fmt.Errorf("%s got %d, want %d", a, x, input(a.Stage, a.Micro))
		}
		w.have[a] = x + a.Stage
		return w.publish(ctx, a, a.Stage+1, w.have[a])
	case Backward, Input:
		if _, ok := w.have[act(a.Stage, Forward, a.Micro)]; !ok {
			return fmt.Errorf("%s before its forward", a)
		}
		g, err := w.operand(ctx, a, RecvBackward, act(a.Stage+1, Backward, a.Micro), a.Stage == w.s.Stages-1)
		if err != nil {
			return err
		}
		if want := gradient(w.s.Stages, a.Stage, a.Micro); g != want {
			return fmt.Errorf("%s got %d, want %d", a, g, want)
		}
		w.have[act(a.Stage, Backward, a.Micro)] = g - a.Stage - 1
		return w.publish(ctx, act(a.Stage, Backward, a.Micro), a.Stage-1, g-a.Stage-1)
	case Weight:
		if _, ok := w.have[act(a.Stage, Backward, a.Micro)]; !ok {
			return fmt.Errorf("%s before its input gradient", a)
		}
	case SendForward, SendBackward:
		kind := Forward
		if a.Kind == SendBackward {
			kind = Backward
		}
		v, ok := w.have[act(a.Stage, kind, a.Micro)]
		if !ok {
			return fmt.Errorf("%s before its value", a)
		}
		return w.m.send(ctx, w.rank, w.s.Place[a.Peer()], act(a.Peer(), kind, a.Micro), v)
	case RecvForward, RecvBackward:
		kind := Forward
		if a.Kind == RecvBackward {
			kind = Backward
		}
		v, err := w.m.recv(ctx, w.s.Place[a.Peer()], w.rank, act(a.Stage, kind, a.Micro))
		w.have[a] = v
		return err
	}
	return nil
}

// operand returns what an action needs of its neighbour stage.
func (w *worker) operand(ctx context.Context, a Action, recv Kind, source Action, first bool) (int, error) {
	if first && a.Kind == Forward {
		return input(0, a.Micro), nil
	}
	if first {
		return gradient(w.s.Stages, a.Stage, a.Micro), nil
	}
	if w.s.Place[source.Stage] == w.rank {
		v, ok := w.have[source]
		if !ok {
			return 0, <-w.stuck(ctx, a)
		}
		return v, nil
	}
	if w.s.Lowered() {
		v, ok := w.have[act(a.Stage, recv, a.Micro)]
		if !ok {
			return 0, fmt.Errorf("%s before it was received", a)
		}
		return v, nil
	}
	return w.m.recv(ctx, w.s.Place[source.Stage], w.rank, act(a.Stage, source.Kind, a.Micro))
}

// stuck waits for something that the rank itself would have to do later.
func (w *worker) stuck(ctx context.Context, a Action) chan error {
	<-ctx.Done()
	c := make(chan error, 1)
	c <- fmt.Errorf("%s waits for its own rank", a)
	return c
}

// publish gives a result to another rank if communication is implied.
func (w *worker) publish(ctx context.Context, a Action, to, v int) error {
	if w.s.Lowered() || to < 0 || to >= w.s.Stages || w.s.Place[to] == w.rank {
		return nil
	}
	return w.m.send(ctx, w.rank, w.s.Place[to], act(to, a.Kind, a.Micro), v)
}

// tagged delivers each message by name, in any order.
type tagged struct {
	mu    sync.Mutex
	boxes map[Action]chan int
}

func (m *tagged) box(a Action) chan int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.boxes[a] == nil {
		m.boxes[a] = make(chan int, 8)
	}
	return m.boxes[a]
}

func (m *tagged) send(_ context.Context, _, _ int, a Action, v int) error {
	m.box(a) <- v
	return nil
}

func (m *tagged) recv(ctx context.Context, _, _ int, a Action) (int, error) {
	select {
	case v := <-m.box(a):
		return v, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// wires are one channel of limited size between each two ranks; what comes out must be what was waited for.
type wires struct {
	mu    sync.Mutex
	size  int
	pairs map[[2]int]chan letter
}

type letter struct {
	to    Action
	value int
}

func (m *wires) wire(from, to int) chan letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := [2]int{from, to}
	if m.pairs[k] == nil {
		m.pairs[k] = make(chan letter, m.size)
	}
	return m.pairs[k]
}

func (m *wires) send(ctx context.Context, from, to int, a Action, v int) error {
	select {
	case m.wire(from, to) <- letter{a, v}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *wires) recv(ctx context.Context, from, to int, a Action) (int, error) {
	select {
	case l := <-m.wire(from, to):
		if l.to != a {
			return 0, fmt.Errorf("waited for %s, got the message for %s", a, l.to)
		}
		return l.value, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
