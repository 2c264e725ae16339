package plan

// Least is an Estimate without simulation: its bubble is what no order of the schedule's kind avoids, so that Step is below that of
// Estimate, or the same where there is no pipeline. Memory and all other parts are those of Estimate. A search asks it first: it takes
// a tenth of the time.
func (e *Estimator) Least(s Strategy) (Estimate, error) {
	s = s.normal()
	if err := e.Check(s); err != nil {
		return Estimate{}, err
	}
	t, err := e.split(&s)
	if err != nil {
		return Estimate{}, err
	}
	micros := s.Micros(e.w.Batch)
	out := Estimate{Level: e.cal.Level, Fits: true}
	one := s
	one.PP = 1 // the parts of the busiest rank, without its bubble
	if err := e.flow(&one, t, micros, &out); err != nil {
		return Estimate{}, err
	}
	if s.PP > 1 {
		out.Parts.Bubble = e.idle(&s, t, micros)
	}
	e.tail(&s, t, &out)
	out.Step = out.Parts.Sum()
	return out, e.memory(&s, t, micros, &out)
}

// idle is what a pipeline waits at least: a rank begins when the first micro-batch has come to it, and where backward passes are not
// split, its last one has to go back to the first rank.
func (e *Estimator) idle(s *Strategy, t *stages, micros int) float64 {
	slow := 0
	for i := range t.ranks {
		if t.ranks[i].busy() > t.ranks[slow].busy() {
			slow = i
		}
	}
	n := shortened(s, micros)
	if n*s.PP*s.VPP > mostCells {
		return e.closed(s, t, micros, &t.ranks[slow].work)
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
	return max(0, least-float64(n)*t.ranks[slow].busy())
}
