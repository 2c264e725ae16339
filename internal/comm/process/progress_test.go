package process_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/commtest"
	"github.com/galley-ml/galley/internal/comm/process"
)

// driven is a transport that has to be asked for its messages to get on.
type driven struct {
	comm.Transport
	asked *atomic.Int64
}

func (d driven) Progress() { d.asked.Add(1) }

// TestProgress: a rank that computes has the transport get on while it has started a collective and not
// waited for it, and only then; a transport that gets on by itself is asked nothing.
func TestProgress(t *testing.T) {
	for _, drives := range []bool{true, false} {
		var asked atomic.Int64
		net := commtest.NewLoopback(2, 0)
		j := &job{net: net}
		for i := range 2 {
			transport := net.Transport(i)
			if drives {
				transport = driven{transport, &asked}
			}
			j.processes = append(j.processes, process.Join(transport))
		}
		var before, during, after atomic.Int64
		errs := j.run(context.Background(), []int{0, 1}, func(r comm.Comm) error {
			g, err := r.Group(nil)
			if err != nil || r.ID() == 1 {
				if err == nil {
					_, err = g.StartAllReduce(array.Array{}, array.New(array.F32, 1<<16), comm.Sum).Wait()
				}
				return err
			}
			progress := comm.Progress(r)
			progress()
			before.Store(asked.Load())
			p := g.StartAllReduce(array.Array{}, array.New(array.F32, 1<<16), comm.Sum)
			progress()
			during.Store(asked.Load())
			_, err = p.Wait()
			progress()
			after.Store(asked.Load())
			return err
		})
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := [3]int64{0, 1, 1}
		if !drives {
			want = [3]int64{}
		}
		if got := [3]int64{before.Load(), during.Load(), after.Load()}; got != want {
			t.Errorf("drives %v: asked %v times before, during and after, want %v", drives, got, want)
		}
	}
}
