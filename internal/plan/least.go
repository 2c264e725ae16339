package plan

// Least is Exact without simulation: its bubble is what no order of the schedule's kind avoids, so that Step is below that of Exact, or
// the same where there is no pipeline. Memory and all other parts are the same. A search asks it first: it takes a tenth of the time.
func (e *Estimator) Least(s Strategy) (Estimate, error) {
	s = s.normal()
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

// Exact is Estimate with the schedule simulated further: all of it, or where it is very long, as many rounds as tell its pace. It is what
// plans are compared by in the end.
func (e *Estimator) Exact(s Strategy) (Estimate, error) {
	s = s.normal()
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
			span, err := e.simulate(&s, t, n)
			if err != nil {
				return Estimate{}, err
			}
			out.Parts.Bubble = max(0, span-float64(n)*busiest.busy())
		}
	}
	out.Step = out.Parts.Sum()
	spread := e.cal.spread()
	out.Low, out.High = out.Step*(1-spread), out.Step*(1+spread)
	out.MFU = e.w.Model.FlopsPerToken(e.w.Seq) * e.w.Tokens() / (out.Step * e.peak())
	return out, nil
}

// The most pairs of chunk and micro-batch that Exact simulates in full, and in rounds.
const (
	exactCells = 1 << 13
	roundCells = 1 << 15
)

// rounds is how many micro-batches Exact simulates: all of them, or four rounds and the same remainder; 0 where even these are too many.
func rounds(s *Strategy, micros int) int {
	if micros*s.PP*s.VPP <= exactCells || micros <= 5*s.PP {
		return micros
	}
	if n := 4*s.PP + micros%s.PP; n*s.PP*s.VPP <= roundCells {
		return n
	}
	return 0
}

// unscheduled is an estimate without its bubble.
func (e *Estimator) unscheduled(s *Strategy) (*stages, Estimate, error) {
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

// busiest is the work of the rank that is busy longest.
func (t *stages) busiest() *work {
	slow := 0
	for i := range t.ranks {
		if t.ranks[i].busy() > t.ranks[slow].busy() {
			slow = i
		}
	}
	return &t.ranks[slow].work
}

// idle is what a pipeline waits at least: a rank begins when the first micro-batch has come to it, and where backward passes are not
// split, its last one has to go back to the first rank.
func (e *Estimator) idle(s *Strategy, t *stages, micros int) float64 {
	n := rounds(s, micros)
	busiest := t.busiest()
	if n == 0 {
		return e.closed(s, t, micros, busiest)
	}
	whole := s.schedule() == "1f1b" || s.schedule() == "interleaved" || s.schedule() == "fthenb"
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
