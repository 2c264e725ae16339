package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/comm/inproc"
	"github.com/galley-ml/galley/internal/plan"
)

// communication measures collectives and messages by the processor time of all members together.
func communication(h *plan.Host) error {
	const members, small, large = 4, 64, 1 << 20
	reduce := func(elements int) func(comm.Comm, *comm.Group) error {
		x := make([]array.Array, members)
		for i := range x {
			x[i] = array.New(array.F32, elements)
		}
		return func(_ comm.Comm, g *comm.Group) error {
			_, err := g.AllReduce(x[g.Pos()], x[g.Pos()], comm.Sum)
			return err
		}
	}
	meet, err := collectiveTime(members, 200, reduce(small))
	if err != nil {
		return err
	}
	long, err := collectiveTime(members, 20, reduce(large))
	if err != nil {
		return err
	}
	woken, err := wake(members, meet, reduce(small))
	if err != nil {
		return err
	}
	h.Meet, h.Wake = round(meet/members), round(woken)
	h.Touch = round(members * 8 * large / math.Max(long-meet, long/2))
	x := []array.Array{array.New(array.F32, small), array.New(array.F32, small)}
	message, err := collectiveTime(2, 200, func(_ comm.Comm, g *comm.Group) error {
		if g.Pos() == 0 {
			_, err := g.StartSend(x[0], 1, 0).Wait()
			return err
		}
		_, err := g.StartRecv(x[1], 0, 0).Wait()
		return err
	})
	if err != nil {
		return err
	}
	h.Message = round(message)
	idle, err := idleFor(h)
	h.Idle = round(idle)
	return err
}

// idleFor measures how long an idle core takes to start: two members compute in turn, each when the other has
// sent its result.
func idleFor(h *plan.Host) (float64, error) {
	if h.Cores < 2 {
		return 0, nil
	}
	const turns, work = 40, 1 << 17
	w, err := inproc.New(2)
	if err != nil {
		return 0, err
	}
	own := [2][]float32{make([]float32, work), make([]float32, work)}
	var list []float64
	for range 15 {
		var computed [2]time.Duration
		start := time.Now()
		err := w.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
			g, err := r.Group(nil)
			x := array.New(array.F32, 1)
			for i := 0; i < turns && err == nil; i++ {
				if i%2 == r.ID() {
					begin := time.Now()
					for k, v := range own[r.ID()] {
						own[r.ID()][k] = 0.5*v + 1
					}
					computed[r.ID()] += time.Since(begin)
					_, err = g.StartSend(x, 1-r.ID(), 0).Wait()
				} else {
					_, err = g.StartRecv(x, 1-r.ID(), 0).Wait()
				}
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		list = append(list, (time.Since(start)-computed[0]-computed[1]).Seconds()/turns-h.Message)
	}
	return math.Max(0, middle(list)), nil
}

// wake returns the additional processor seconds of a collective for each member if it computes something
// between two of them, as devices do: waiting threads have to be woken, and their caches hold other data. It
// is the median of several measurements.
func wake(members int, meet float64, call func(r comm.Comm, g *comm.Group) error) (float64, error) {
	own := make([][]float32, members)
	for i := range own {
		own[i] = make([]float32, 1<<16)
	}
	compute := func(r comm.Comm, _ *comm.Group) error {
		for i, x := range own[r.ID()] {
			own[r.ID()][i] = 0.5*x + 1
		}
		return nil
	}
	var list []float64
	for range 15 {
		alone, err := collectiveTime(members, 60, compute)
		if err != nil {
			return 0, err
		}
		both, err := collectiveTime(members, 60, func(r comm.Comm, g *comm.Group) error {
			compute(r, g)
			return call(r, g)
		})
		if err != nil {
			return 0, err
		}
		list = append(list, (both-alone-meet)/float64(members))
	}
	return math.Max(0, middle(list)), nil
}

// collectiveTime returns the processor seconds of one call for all members, the least of some bursts of
// calls.
func collectiveTime(members, calls int, call func(r comm.Comm, g *comm.Group) error) (float64, error) {
	w, err := inproc.New(members)
	if err != nil {
		return 0, err
	}
	best := math.Inf(1)
	for range 3 {
		start := CPUSeconds()
		err := w.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
			all, err := r.Group(nil)
			for i := 0; i < calls && err == nil; i++ {
				err = call(r, all)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		best = math.Min(best, (CPUSeconds()-start)/float64(calls))
	}
	if best <= 0 {
		return 0, fmt.Errorf("calibrate: %d collectives took no time", calls)
	}
	return best, nil
}
