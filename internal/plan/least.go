package plan

import "github.com/galley-ml/galley/strategy"

// Least is like Exact without simulation: its bubble is a lower bound for the kind of schedule, so that Step
// is at most that of Exact, and equal without a pipeline. Memory and all other parts are the same. A search
// calls it first, because it takes a tenth of the time.
func (e *Estimator) Least(s strategy.Strategy) (Estimate, error) {
	s = s.Sized(e.w.Batch)
	t, out, err := e.unscheduled(&s)
	if err != nil {
		return Estimate{}, err
	}
	if s.PP > 1 {
		out.Parts.Bubble = e.idle(&s, t, s.Micros(e.w.Batch))
		out.Step = out.Parts.Sum()
	}
	return out, nil
}

// Exact is like Estimate with more of the schedule simulated: all of it or, if it is very long, enough rounds
// to determine its pace. Plans are compared by it in the end.
func (e *Estimator) Exact(s strategy.Strategy) (Estimate, error) {
	s = s.Sized(e.w.Batch)
	t, out, err := e.unscheduled(&s)
	if err != nil {
		return Estimate{}, err
	}
	if s.PP > 1 {
		micros := s.Micros(e.w.Batch)
		busiest := t.busiest()
		n := rounds(&s, micros)
		if n == 0 {
			out.Parts.Bubble = e.closed(&s, t, micros, busiest)
		} else {
			span, err := e.simulateHeld(&s, t, n, &out)
			if err != nil {
				return Estimate{}, err
			}
			out.Parts.Bubble = max(0, span-float64(n)*busiest.busy())
		}
	}
	out.Step = out.Parts.Sum()
	spread := e.cal.spread()
	out.Low, out.High = out.Step/(1+spread), out.Step*(1+spread)
	out.MFU = e.w.Model.FlopsPerToken(e.w.Seq) * e.w.Tokens() / (out.Step * e.peak())
	return out, nil
}

// simulateHeld is like simulate and tracks what ranks hold: if chunks have different lengths, the peak may
// exceed what their number suggests.
func (e *Estimator) simulateHeld(s *strategy.Strategy, t *stages, n int, out *Estimate) (float64, error) {
	g, err := e.order(scheduleKey{s.Class(), s.PP, s.VPP, n})
	if err != nil {
		return 0, err
	}
	sim := e.simulators.Get().(*simulation)
	defer e.simulators.Put(sim)
	sim.costs(e, t)
	kept := make([]float64, s.PP) // of one micro-batch
	for c := range t.chunks {
		bytes := e.chunkActivations(s, &t.chunks[c]) * (1 - s.Offload.Activations)
		sim.c.Activation = append(sim.c.Activation, bytes)
		kept[rankOf(s, c)] += bytes
	}
	line, err := sim.Run(g.schedule, &sim.c)
	sim.c.Activation = sim.c.Activation[:0]
	if err != nil {
		return 0, err
	}
	for r := range out.Stages {
		if more := line.PeakBytes[r] - out.Stages[r].InFlight*kept[r]; more > 1e-9*line.PeakBytes[r] {
			out.hold(r, more)
		}
	}
	return line.Makespan, nil
}

// hold adds to the activations of a rank.
func (out *Estimate) hold(rank int, bytes float64) {
	st := &out.Stages[rank]
	slack := st.Memory.Slack / st.Memory.Allocated()
	st.Memory.Activations += bytes
	st.Memory.Slack += slack * bytes
	if st.Memory.Total() > st.Limit {
		out.Fits = false
	}
	if st.Memory.Total() > out.Memory.Total() {
		out.Memory = st.Memory
	}
}

// The maximal numbers of pairs of chunk and micro-batch that Exact simulates in full, and in rounds.
const (
	exactCells = 1 << 13
	roundCells = 1 << 15
)

// rounds returns the number of micro-batches that Exact simulates: all of them, or four rounds and the same
// remainder; 0 if even these are too many.
func rounds(s *strategy.Strategy, micros int) int {
	if micros*s.PP*s.VPP <= exactCells || micros <= 5*s.PP {
		return micros
	}
	if n := 4*s.PP + micros%s.PP; n*s.PP*s.VPP <= roundCells {
		return n
	}
	return 0
}

// unscheduled returns an estimate without its bubble.
func (e *Estimator) unscheduled(s *strategy.Strategy) (*stages, Estimate, error) {
	if err := e.Check(*s); err != nil {
		return nil, Estimate{}, err
	}
	t, err := e.split(s)
	if err != nil {
		return nil, Estimate{}, err
	}
	micros := s.Micros(e.w.Batch)
	out := Estimate{Level: e.cal.Level, Fits: true}
	one := *s
	one.PP = 1 // the parts of the busiest rank, without its bubble
	if err := e.flow(&one, t, micros, &out); err != nil {
		return nil, Estimate{}, err
	}
	e.tail(s, t, &out)
	out.Step = out.Parts.Sum()
	return t, out, e.memory(s, t, micros, &out)
}

// busiest returns the work of the rank with the most work.
func (t *stages) busiest() *work {
	slow := 0
	for i := range t.ranks {
		if t.ranks[i].busy() > t.ranks[slow].busy() {
			slow = i
		}
	}
	return &t.ranks[slow].work
}

// idle returns a lower bound of a pipeline's idle time: a rank starts when the first micro-batch has reached
// it and, if backward passes are not split, its last one has to return to the first rank.
func (e *Estimator) idle(s *strategy.Strategy, t *stages, micros int) float64 {
	n := rounds(s, micros)
	busiest := t.busiest()
	if n == 0 {
		return e.closed(s, t, micros, busiest)
	}
	whole := !s.Class().Split
	least, before := 0.0, 0.0
	for c := range s.PP { // the first chunk of each rank
		w := &t.chunks[c]
		least = max(least, before+float64(n)*t.ranks[c].busy())
		before += w.forwardTime()
		if whole {
			before += w.backwardTime()
		}
	}
	return max(0, least-float64(n)*busiest.busy())
}
