package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/op"
)

// hostStep is a model and a strategy. Its nodes are timed within the step, with realistic cache
// contents.
type hostStep struct {
	StepConfig
	// images, if it has any, is used instead of a language model.
	images images
	s      galley.Strategy
	// all means that one device has all threads; otherwise each has one.
	all bool
}

// hostSteps returns small and large models, with short and long sequences, of both kinds, with strategies
// that use further ops.
func hostSteps() []hostStep {
	var list []hostStep
	for _, model := range []string{"gpt2", "llama"} {
		small := StepConfig{Model: model, Layers: 3, Dim: 64, Heads: 4, Seq: 64, Batch: 4, Vocab: 512}
		short := StepConfig{Model: model, Layers: 3, Dim: 128, Heads: 4, Seq: 32, Batch: 32, Vocab: 512}
		large := StepConfig{Model: model, Layers: 3, Dim: 256, Heads: 8, Seq: 256, Batch: 8, Vocab: 2048}
		for _, c := range []StepConfig{small, short, large} {
			for _, s := range []galley.Strategy{{DP: 2, Micro: 2}, {DP: 2, Zero: 3}, {TP: 2}, {TP: 2, Sequence: true},
				{TP: 4, Micro: 2}, {CP: 2}, {CP: 2, Context: "ulysses"}} {
				list = append(list, hostStep{StepConfig: c, s: s})
			}
			// With all threads the amount of work to share matters: a whole batch, a part, one sequence.
			for _, s := range []galley.Strategy{{}, {Micro: 4}, {Micro: c.Batch}} {
				list = append(list, hostStep{StepConfig: c, s: s, all: true})
			}
		}
	}
	return list
}

// ops measures the ops of training steps in place. keep is called before the first pass and after each but
// the last.
func (m *calibration) ops(h *plan.Host, keep func(passes int) error) error {
	whole := galley.CPU(galley.Config{Threads: h.Cores})
	defer whole.Close()
	one, all := map[string][]timed{}, map[string][]timed{}
	var spreads []float64
	steps := append(hostSteps(), imageSteps()...)
	for pass := range m.Passes {
		if err := keep(pass); err != nil {
			return err
		}
		for i, s := range steps {
			m.tell("ops in training steps", pass*len(steps)+i, m.Passes*len(steps))
			d, seen := m.device, one
			if s.all {
				d, seen = whole, all
			}
			list, err := s.watch(d, h, seen)
			if err != nil {
				return fmt.Errorf("calibrate: %s: %w", s.s, err)
			}
			spreads = append(spreads, list...)
		}
		h.Spread, h.Ops = round(math.Min(1, middle(spreads))), hostOps(one, all)
	}
	for _, o := range h.Ops {
		m.say("%+v", o)
	}
	return nil
}

// hostOps returns the measured times of ops on one thread and on all.
func hostOps(one, all map[string][]timed) (list []plan.HostOp) {
	for _, name := range slices.Sorted(maps.Keys(one)) {
		list = append(list, plan.HostOp{Op: name, One: timesOf(one[name]), All: timesOf(all[name])})
	}
	return list
}

// timed is a node with its seconds; for products they are relative to the grid's.
type timed struct {
	work    op.Work
	sides   plan.Sides
	count   float64
	seconds float64
}

// watchedSteps is the number of timed steps, after one that is not.
const watchedSteps = 2

// watch runs steps and adds the time of each node to seen; it returns the variation of the times of single
// nodes. The lowest times of a collective are those of members that arrived last and did not wait.
func (s hostStep) watch(d *galley.Device, h *plan.Host, seen map[string][]timed) (spreads []float64,
	err error) {
	var mu sync.Mutex
	took, on := map[*galley.Node][]float64{}, false
	s.observe = func(n *galley.Node, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if on {
			took[n] = append(took[n], d.Seconds())
		}
	}
	t, err := s.start(d)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for i := range watchedSteps + 1 {
		on = i > 0
		if _, err := t.Step(s.batch(uint32(i))...); err != nil {
			return nil, err
		}
	}
	for n, list := range took {
		if _, ok := n.Op().(op.Messenger); ok || plan.WorkOf(n) == (op.Work{}) {
			continue
		}
		name := n.Op().Name()
		if c, ok := n.Op().(op.Collective); ok {
			seen[name] = append(seen[name], s.exchange(h, n, c, list))
			continue
		}
		for _, t := range list {
			seen[name] = append(seen[name], s.timed(h, n, t))
		}
		if len(list) >= 4 {
			spreads = append(spreads, spread(list))
		}
	}
	return spreads, nil
}

// start returns a trainer of the step.
func (s hostStep) start(d *galley.Device) (*galley.Trainer, error) {
	if s.images != (images{}) {
		return s.images.trainer(d, galley.TrainerConfig{Strategy: &s.s, Observe: s.observe, ClipNorm: 1})
	}
	t, _, err := s.trainer(d, &s.s)
	return t, err
}

// batch returns the i-th batch.
func (s hostStep) batch(i uint32) []array.Array {
	if s.images != (images{}) {
		return s.images.batch(i)
	}
	return []array.Array{tokens(s.StepConfig, 2*i+1), tokens(s.StepConfig, 2*i+2)}
}

// spread returns the relative standard deviation of times around the median: that of a normal distribution
// with the same interquartile range.
func spread(list []float64) float64 {
	m := middle(list)
	far := make([]float64, len(list))
	for i, x := range list {
		far[i] = math.Abs(x - m)
	}
	return 1.48 * middle(far) / m
}

// exchange returns a member's share of a core's time in a collective, from all its times.
func (s hostStep) exchange(h *plan.Host, n *galley.Node, c op.Collective, list []float64) timed {
	members, err := op.Members(c, 0)
	if err != nil || len(members) < 2 {
		members = make([]int, s.s.Devices())
	}
	count := len(members)
	slices.Sort(list)
	return timed{work: plan.WorkOf(n), seconds: list[len(list)/(2*count)] * float64(min(h.Cores,
		count)) / float64(count)}
}

// timed returns a node's share of a core's time from a measured time, without the slowdown by other cores.
func (s hostStep) timed(h *plan.Host, n *galley.Node, took float64) timed {
	x := timed{work: plan.WorkOf(n), seconds: took / h.Slowed(min(s.s.Devices(), h.Cores))}
	if sides, count, ok := plan.ProductsOf(n); ok {
		if x.sides = sides; s.all { // one thread does one after the other, whatever their number
			x.count = count
		}
		x.seconds = (x.seconds - math.Min(h.Start, x.seconds/2)) / (count * h.Product(sides))
	}
	return x
}

// cell is a class of similar sizes.
type cell struct {
	sides                  plan.Sides
	count, size, intensity float64
}

func (t timed) cell() cell {
	if t.sides != (plan.Sides{}) {
		doublings := func(side int) int { return int(math.Round(math.Log2(float64(side)))) }
		return cell{sides: plan.Sides{M: doublings(t.sides.M), N: doublings(t.sides.N), K: doublings(t.sides.K)},
			count: math.Round(math.Log2(t.count + 1))}
	}
	return cell{size: math.Round(2 * math.Log2(t.work.Flops+t.work.Bytes)),
		intensity: math.Round(math.Log2(t.work.Flops/(t.work.Bytes+1) + 1))}
}

// meanOf returns the work of the median of sorted measurements of similar work, with their mean
// seconds.
func meanOf(list []timed) timed {
	x, sum, work := list[len(list)/2], 0.0, 0.0
	for _, t := range list {
		sum += t.seconds
		work += t.work.Flops + t.work.Bytes
	}
	x.seconds = sum / float64(len(list))
	if own := x.work.Flops + x.work.Bytes; x.sides == (plan.Sides{}) && work > 0 {
		x.seconds *= own * float64(len(list)) / work
	}
	return x
}

// timesOf returns one measurement for each class of sizes: the mean, since a step takes the sum of its nodes'
// times. The longest tenth is excluded: occasional other load is not part of most steps. For collectives it
// is one of the shorter ones, whose members waited least.
func timesOf(list []timed) plan.HostTimes {
	cells := map[cell][]timed{}
	for _, t := range list {
		cells[t.cell()] = append(cells[t.cell()], t)
	}
	var some []timed
	for _, c := range cells {
		slices.SortFunc(c, func(a, b timed) int { return cmp.Compare(a.seconds, b.seconds) })
		if c[0].work.Wire > 0 { // some members did wait
			some = append(some, c[len(c)*2/5])
			continue
		}
		some = append(some, meanOf(c[:len(c)-len(c)/10]))
	}
	slices.SortFunc(some, func(a, b timed) int {
		return cmp.Or(cmp.Compare(a.sides.M, b.sides.M), cmp.Compare(a.sides.N, b.sides.N),
			cmp.Compare(a.sides.K, b.sides.K), cmp.Compare(a.count, b.count), cmp.Compare(a.work.Flops+a.work.Bytes,
				b.work.Flops+b.work.Bytes), cmp.Compare(a.work.Flops, b.work.Flops))
	})
	var times plan.HostTimes
	for _, t := range some {
		if t.sides != (plan.Sides{}) {
			times.Factors = append(times.Factors, plan.HostFactor{M: t.sides.M, N: t.sides.N, K: t.sides.K,
				Count: round(t.count), Factor: round(min(t.seconds, plan.MaxFactor))})
			continue
		}
		times.Points = append(times.Points, plan.HostPoint{Flops: round(t.work.Flops), Bytes: round(t.work.Bytes),
			Seconds: round(t.seconds)})
	}
	return times
}
