package process_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
)

// counted is a transport that counts the messages that are sent.
type counted struct {
	comm.Transport
	sent *atomic.Int64
}

func (c counted) Start(messages []comm.Message) comm.Transfer {
	for _, m := range messages {
		if m.Send {
			c.sent.Add(1)
		}
	}
	return c.Transport.Start(messages)
}

var none array.Array

// TestEarly: operands of medium length are sent before the other process has come, and only once, in place
// of a part of each operand and then of the result; what is long, or not in one run, waits for the others.
func TestEarly(t *testing.T) {
	const kib = 1 << 8 // elements
	sizes := []int{1, 1}
	for _, c := range []struct {
		name         string
		early, total int64
		start        func(g *comm.Group, pos int) *comm.Pending
	}{
		{"all_reduce", 1, 2, func(g *comm.Group, _ int) *comm.Pending {
			x := array.New(array.F32, 64*kib)
			return g.StartAllReduce(x, x, comm.Sum)
		}},
		{"all_reduce_long", 0, 4, func(g *comm.Group, _ int) *comm.Pending {
			return g.StartAllReduce(none, array.New(array.F32, 1100*kib), comm.Sum)
		}},
		{"reduce_scatter", 1, 2, func(g *comm.Group, _ int) *comm.Pending {
			return g.StartReduceScatter(none, array.New(array.F32, 2, 64*kib), comm.Sum, 0, sizes)
		}},
		{"reduce_scatter_strided", 0, 2, func(g *comm.Group, _ int) *comm.Pending {
			return g.StartReduceScatter(none, array.New(array.F32, 64*kib, 2), comm.Sum, 1, sizes)
		}},
		{"all_gather", 1, 2, func(g *comm.Group, _ int) *comm.Pending {
			return g.StartAllGather(none, array.New(array.F32, 64*kib), 0)
		}},
		{"send", 1, 1, func(g *comm.Group, pos int) *comm.Pending {
			x := array.New(array.F32, 64*kib)
			if pos == 0 {
				return g.StartSend(x, 1, 0)
			}
			return g.StartRecv(x, 0, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent atomic.Int64
			net := commtest.NewLoopback(2, 0)
			j := &job{net: net}
			for i := range 2 {
				j.processes = append(j.processes, process.Join(counted{net.Transport(i), &sent}))
			}
			begun := make(chan struct{})
			errs := j.run(context.Background(), []int{0, 1}, func(r comm.Comm) error {
				g, err := r.Group(nil)
				if err != nil {
					return err
				}
				if r.ID() == 1 {
					<-begun
					_, err = c.start(g, 1).Wait()
					return err
				}
				p := c.start(g, 0)
				if n := sent.Load(); n != c.early {
					err = fmt.Errorf("%d messages are sent at once, want %d", n, c.early)
				}
				close(begun)
				_, wait := p.Wait()
				return errors.Join(err, wait)
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			if n, left := sent.Load(), net.Left(); n != c.total || left > 0 {
				t.Errorf("%d messages, %d of them with one end: want %d and 0", n, left, c.total)
			}
		})
	}
}

// TestEarlyMismatch: an operand that was sent before the calls turned out to differ changes no array.
func TestEarlyMismatch(t *testing.T) {
	out := array.New(array.F32, 1<<14)
	errs := newJob(2, 0).run(t.Context(), []int{0, 1}, func(r comm.Comm) error {
		g, err := r.Group(nil)
		if err != nil {
			return err
		}
		x := array.New(array.F32, 1<<14)
		for i := range array.Data[float32](x) {
			array.Data[float32](x)[i] = 1
		}
		if r.ID() == 0 {
			_, err = g.AllReduce(out, x, comm.Sum)
		} else {
			_, err = g.AllReduce(none, x, comm.Max)
		}
		return err
	})
	var mismatch *comm.MismatchError
	if err := alike(errs); !errors.As(err, &mismatch) {
		t.Fatalf("got %v, want a mismatch", err)
	}
	for _, v := range array.Data[float32](out) {
		if v != 0 {
			t.Fatal("the destination was written to")
		}
	}
}
