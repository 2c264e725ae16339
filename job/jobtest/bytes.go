package jobtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/galley-ml/galley/job"
)

// content returns bytes that tell who sent them to whom, and as which.
func content(from, to, number, size int) []byte {
	rng := rand.New(rand.NewPCG(uint64(from)<<32|uint64(to), uint64(number)))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// notes posts notes of all lengths between all pairs; each receiver gets those of each sender in order. The
// sender writes over a note as soon as it is posted.
func notes(t *testing.T, connect Connect) {
	const processes, count = 3, 60
	size := func(i int) int { return (i * i * i) % (job.NoteBytes + 1) }
	ts := connect(t, processes)
	type note struct {
		from int
		data []byte
		err  error
	}
	got := make([]chan note, processes)
	for i, p := range ts {
		if p.Rank() != i || p.Size() != processes {
			t.Fatalf("transport %d says that it is %d of %d", i, p.Rank(), p.Size())
		}
		got[i] = make(chan note, processes*count)
		p.Listen(func(from int, b []byte, err error) { got[i] <- note{from, bytes.Clone(b), err} })
	}
	errs := each(processes, func(me int) error {
		over := make(chan struct{})
		defer close(over)
		go ts[me].Drive(over, nil)
		for i := range count {
			for to := range processes {
				if to != me {
					b := content(me, to, i, size(i))
					ts[me].Post(to, b)
					clear(b)
				}
			}
		}
		next := make([]int, processes)
		for range (processes - 1) * count {
			n := <-got[me]
			i := next[n.from]
			next[n.from]++
			if n.err != nil || !bytes.Equal(n.data, content(n.from, me, i, size(i))) {
				return fmt.Errorf("process %d: note %d from %d is another (%d bytes, %v)", me, i, n.from,
					len(n.data), n.err)
			}
		}
		return nil
	})
	report(t, errs)
	closeTransports(t, ts)
}

// messages starts both ends of many messages in an order of each process's own.
func messages(t *testing.T, connect Connect) {
	const processes, count = 3, 40
	size := func(i int) int { return 1 + (i*i*i*17)%(300<<10) }
	ts := connect(t, processes)
	for _, p := range ts {
		p.Listen(func(int, []byte, error) {})
	}
	errs := each(processes, func(me int) error {
		over := make(chan struct{})
		defer close(over)
		go ts[me].Drive(over, nil)
		var list []job.Message
		for peer := range processes {
			for i := 0; i < count && peer != me; i++ {
				list = append(list, job.Message{Peer: peer, Number: uint32(i), Send: true,
					Data: content(me, peer, i, size(i))},
					job.Message{Peer: peer, Number: uint32(i), Data: make([]byte, size(i))})
			}
		}
		rng := rand.New(rand.NewPCG(uint64(me), 5))
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		var under []job.Transfer
		for at := 0; at < len(list); at += 4 {
			under = append(under, ts[me].Start(list[at:min(at+4, len(list))]))
		}
		for _, x := range under {
			<-x.Done()
			if err := x.Err(); err != nil {
				return fmt.Errorf("process %d: %w", me, err)
			}
		}
		for _, m := range list {
			if !m.Send && !bytes.Equal(m.Data, content(m.Peer, me, int(m.Number), len(m.Data))) {
				return fmt.Errorf("process %d: message %d from %d is another", me, m.Number, m.Peer)
			}
		}
		return nil
	})
	report(t, errs)
	closeTransports(t, ts)
}

func report(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

func closeTransports(t *testing.T, ts []job.Transport) {
	t.Helper()
	report(t, each(len(ts), func(i int) error { return ts[i].Close() }))
}
