package runs

import (
	"math"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// open is what a row does not specify: recomputation, chunks of a pipeline rank, and the micro-batch. Users
// choose what is fast on their system, so these are searched for.
type open struct {
	recompute, chunks, micro, sequence bool
	leastChunks                        int // two where the schedule is known to be interleaved
}

func (o *open) any() bool { return o.recompute || o.chunks || o.micro || o.sequence }

// clearGain is how much faster a choice must be than a simpler one to be assumed.
const clearGain = 0.01

// choose picks the fastest setting that fits for what a row does not specify; of nearly equal ones the
// simplest, which are first. If nothing fits, it is the fastest of all.
func (c *runCase) choose(e *plan.Estimator) error {
	var best strategy.Strategy
	var got plan.Estimate
	found, fits := false, false
	var last error
	for _, s := range c.candidates() {
		c.strategy = s
		fit, err := c.relieve(e)
		if err != nil {
			last = err
			continue
		}
		if !found || fit && !fits || fit == fits && c.got.Step < got.Step*(1-clearGain) {
			found, fits, best, got = true, fit, c.strategy, c.got
		}
	}
	if !found {
		return last
	}
	c.strategy, c.got = best, got
	c.chosen()
	return nil
}

// chosen records the choice.
func (c *runCase) chosen() {
	s, o := &c.strategy, &c.open
	if o.micro {
		c.assume("micro-batch %d", s.MicroBatch)
	}
	if o.chunks {
		c.assume("vpp %d", s.VPP)
	}
	if o.sequence && s.Sequence {
		c.assume("sp")
	}
	if o.recompute {
		c.assume("recompute %s", s.Recompute)
	}
	*o = open{}
}

// candidates returns the strategies that a row may have been run with, the simplest first.
func (c *runCase) candidates() (list []strategy.Strategy) {
	for _, micro := range c.micros() {
		for _, chunks := range c.chunks(micro) {
			s := c.strategy
			s.MicroBatch, s.VPP = micro, chunks
			s.Layers = c.partition(&s)
			list = append(list, s)
			if c.open.sequence {
				s.Sequence = true
				list = append(list, s)
			}
		}
	}
	return list
}

// mostMicro is the largest micro-batch that is tried.
const mostMicro = 8

func (c *runCase) micros() []int {
	s := &c.strategy
	if !c.open.micro {
		return []int{s.MicroBatch}
	}
	var list []int
	for n := 1; n <= mostMicro; n *= 2 {
		if each := s.DP * n; c.workload.Batch%each == 0 &&
			c.workload.Batch/each >= min(s.PP, c.workload.Batch/s.DP) {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return []int{s.MicroBatch}
	}
	return list
}

// chunks returns the possible numbers of chunks of a rank: layers must divide evenly, counting embedding and
// loss as one each if they do not otherwise, and micro-batches must be whole rounds of the ranks.
func (c *runCase) chunks(micro int) []int {
	s, layers := &c.strategy, c.workload.Model.Layers
	if !c.open.chunks {
		return []int{s.VPP}
	}
	list := []int{1}
	if c.workload.Batch/(s.DP*micro)%s.PP != 0 {
		return list
	}
	for v := 2; s.PP*v <= layers+2; v++ {
		if n := s.PP * v; layers%n == 0 || (layers+2)%n == 0 {
			list = append(list, v)
		}
	}
	if c.open.leastChunks > 1 && len(list) > 1 {
		list = list[1:]
	}
	return list
}

// readSchedule parses the names of schedules, and decides whether the chunks are open. DualPipe's two
// directions are modeled as DualPipeV's two halves.
func (c *runCase) readSchedule() {
	r, s := &c.row.Strategy, &c.strategy
	said := strings.ToLower(r.Schedule)
	if said == "" {
		said = strings.ToLower(c.row.Notes)
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
	vee := s.PP > 1 && 2*s.PP <= c.workload.Model.Layers
	switch {
	case s.PP == 1:
	case has("dualpipe", "dual pipe") && vee:
		s.Schedule, s.VPP = "dualpipev", 2
	case has("zbv", "zb-v") && vee:
		s.Schedule, s.VPP = "zbv", 2
	case has("zbh", "zb-h", "zb1p", "zero bubble", "zero-bubble"):
		s.Schedule = "zbh1"
	case has("gpipe", "fthenb", "afab", "all-forward"):
		s.Schedule = "fthenb"
	case r.VPP != nil:
	case has("interleav"):
		c.open.chunks, c.open.leastChunks = true, 2
	default:
		c.open.chunks = r.Schedule == "" && interleaves(c.row)
		switch {
		case r.Schedule != "" && !has("1f1b", "pipedream", "flush"):
			c.assume("schedule %q is 1f1b", r.Schedule)
		case !c.open.chunks:
			c.assume("vpp 1")
		}
	}
}

// interleaves reports whether a framework supports several chunks on a rank, and its users use them.
func interleaves(r *runRow) bool {
	f := strings.ToLower(r.Framework)
	return !strings.Contains(f, "deepspeed") && (strings.Contains(f, "megatron") || era(r) == "modern")
}

// relieve sets the least recomputation that fits, for a row that does not specify it: none, the attention
// core, or layers of each chunk, one after the other. If nothing fits it is all of them, and fits is false.
func (c *runCase) relieve(e *plan.Estimator) (fits bool, err error) {
	s := &c.strategy
	tries := []strategy.Recompute{s.Recompute}
	if c.open.recompute {
		tries = c.reliefs()
	}
	room := memoryDoubt * c.cluster.Groups[0].Device.Memory
	for _, s.Recompute = range tries {
		if c.got, err = e.Estimate(*s); err != nil || c.got.Memory.Total() <= room {
			return err == nil, err
		}
	}
	return false, nil
}

// reliefs returns the recomputation settings, the least first.
func (c *runCase) reliefs() []strategy.Recompute {
	s := &c.strategy
	tries := []strategy.Recompute{strategy.None}
	if c.workload.Software.Unfused {
		tries = append(tries, strategy.Selective)
	}
	chunk := int(math.Ceil(float64(c.workload.Model.Layers) / float64(max(1, s.PP*s.VPP))))
	for n := 1; n <= chunk; n += 1 + chunk/64 {
		tries = append(tries, strategy.FullLayers(n))
	}
	return append(tries, strategy.Full)
}
