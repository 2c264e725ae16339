package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/job"
)

// CommConfig is all-reduces of float32 over the processes of a job, or the devices of one.
type CommConfig struct {
	// Job is the processes; nil means this one alone, with Devices.
	Job     *job.Job
	Devices int
	// Bytes is the sizes, Runs the measured calls of each; 0 means chosen by the size.
	Bytes []int
	Runs  int
}

// CommResult is the time of an all-reduce of a size, in microseconds: medians of calls in turns.
type CommResult struct {
	Bytes     int     `json:"bytes"`
	Processes int     `json:"processes"`
	Library   string  `json:"library,omitempty"`
	Here      float64 `json:"in_process_us"`
	Ours      float64 `json:"galley_us,omitempty"`
	Theirs    float64 `json:"mpi_allreduce_us,omitempty"`
}

// String prints the result in a line.
func (r CommResult) String() string {
	text := fmt.Sprintf("all-reduce of %8d bytes: in-process %10.1f µs", r.Bytes, r.Here)
	if r.Processes > 1 {
		text += fmt.Sprintf(", %d processes %10.1f µs", r.Processes, r.Ours)
	}
	if r.Theirs > 0 {
		text += fmt.Sprintf(", MPI_Allreduce %10.1f µs", r.Theirs)
	}
	return text
}

// Comm times all-reduces of each size in turns: between devices of this process, between the processes, and
// by the library's own call. All processes of a job call it; tell is called with the results of the first.
func Comm(c CommConfig, tell func(CommResult) error) error {
	here, err := transport.New(c.Devices)
	if err != nil {
		return err
	}
	defer here.Close()
	var between comm.World
	if c.Job.Size() > 1 {
		if between, err = c.Job.Devices(c.Job.Size()); err != nil {
			return err
		}
		defer between.Close()
	}
	for _, n := range c.Bytes {
		r, err := c.measure(here, between, n)
		if err != nil {
			return err
		}
		if c.Job.First() {
			if err := tell(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure times one size.
func (c CommConfig) measure(here, between comm.World, bytes int) (r CommResult, err error) {
	runs := c.Runs
	if runs == 0 {
		runs = max(10, min(1000, 200<<20/bytes))
	}
	var own, ours, theirs []float64
	for range rounds { // in turns, so that no variant alone has a quiet machine
		for _, way := range []struct {
			world comm.World
			call  func(g *comm.Group, y, x array.Array) error
			into  *[]float64
		}{{here, sum, &own}, {between, sum, &ours}, {between, c.native, &theirs}} {
			native := way.into == &theirs
			if way.world == nil || way.world == here && !c.Job.First() || native && !c.Job.OwnAllReduce() {
				continue
			}
			times, err := reduceTimes(way.world, bytes, max(3, runs/rounds), way.call)
			if err != nil {
				return r, err
			}
			*way.into = append(*way.into, times...)
		}
	}
	r = CommResult{Bytes: bytes, Processes: c.Job.Size(), Here: median(own), Ours: median(ours),
		Theirs: median(theirs)}
	if c.Job.Size() > 1 {
		r.Library = c.Job.Library()
	}
	return r, nil
}

// rounds is the number of turns of each variant.
const rounds = 5

func sum(g *comm.Group, y, x array.Array) error {
	_, err := g.AllReduce(y, x, comm.Sum)
	return err
}

// native calls the library's own all-reduce.
func (c CommConfig) native(_ *comm.Group, y, x array.Array) error {
	return c.Job.AllReduceF32(y.Bytes(), x.Bytes())
}

// reduceTimes returns the microseconds of calls on a world's first rank.
func reduceTimes(w comm.World, bytes, runs int,
	call func(g *comm.Group, y, x array.Array) error) (times []float64,
	err error) {
	err = w.Run(context.Background(), func(_ context.Context, c comm.Comm) error {
		g, err := c.Group(nil)
		if err != nil {
			return err
		}
		x, y := array.New(array.F32, bytes/4), array.New(array.F32, bytes/4)
		for range runs {
			if err := g.Barrier(); err != nil {
				return err
			}
			start := time.Now()
			if err := call(g, y, x); err != nil {
				return err
			}
			if c.ID() == 0 {
				times = append(times, float64(time.Since(start))/1e3)
			}
		}
		return nil
	})
	return times, err
}

// median returns the median of some numbers; 0 if there are none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
