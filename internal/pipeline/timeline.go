package pipeline

// Span is the time interval of an action.
type Span struct {
	Action
	Start, End float64
}

// Message is the time interval in which the result of an action was in transit to another rank: from the time
// that the link took it to its arrival. Messages that take no time are not listed.
type Message struct {
	From, To   int
	Action     Action
	Start, End float64
}

// Timeline holds the times of all actions of a schedule, in seconds from the start of the step.
type Timeline struct {
	Schedule *Schedule
	// Ranks holds the span of each action, in the schedule's order.
	Ranks    [][]Span
	Messages []Message
	// Makespan is the end of the last action.
	Makespan float64
	// Work is how long each rank computes. First and Last are when it begins to compute and when it ends its
	// last action.
	Work, First, Last []float64
	// PeakBytes is the maximal memory of each rank, of what Costs.Activation counts, and PeakLive the largest
	// number of micro-batches, by stage, whose backward passes have not ended.
	PeakBytes []float64
	PeakLive  []int

	activation, kept []float64
}

// Bubble returns the fraction of the makespan in which the rank does not compute.
func (t *Timeline) Bubble(rank int) float64 {
	if t.Makespan == 0 {
		return 0
	}
	return 1 - t.Work[rank]/t.Makespan
}

// BubbleFraction returns the fraction of all ranks' time in which they do not compute.
func (t *Timeline) BubbleFraction() float64 {
	sum := 0.0
	for r := range t.Work {
		sum += t.Bubble(r)
	}
	return sum / float64(len(t.Work))
}

// Idle returns how long the rank does not compute between its first action and its last. Its largest value
// over the ranks is what papers call the bubble: a rank that begins late can end late, if no step waits for
// all ranks.
func (t *Timeline) Idle(rank int) float64 { return t.Last[rank] - t.First[rank] - t.Work[rank] }

// LongestIdle returns the largest Idle of any rank.
func (t *Timeline) LongestIdle() float64 {
	most := 0.0
	for r := range t.Work {
		most = max(most, t.Idle(r))
	}
	return most
}

// Sample is the memory of a rank from a time on.
type Sample struct {
	Time, Bytes float64
}

// Memory returns the memory of a rank over time, as a step function.
func (t *Timeline) Memory(rank int) []Sample {
	samples := []Sample{{}}
	bytes := 0.0
	step := func(at, change float64) {
		if change == 0 {
			return
		}
		bytes += change
		if last := &samples[len(samples)-1]; last.Time == at && last.Bytes <= bytes {
			last.Bytes = bytes // a dip of no length: the next action takes what one frees
			return
		}
		samples = append(samples, Sample{at, bytes})
	}
	spans := t.Ranks[rank]
	for i := 0; i < len(spans); i++ {
		unit := spans[i : i+1]
		if spans[i].Joined {
			unit = spans[i : i+2]
			i++
		}
		for _, s := range unit {
			step(s.Start, t.taken(s.Action))
		}
		for _, s := range unit {
			step(s.End, -t.freed(s.Action))
		}
	}
	return samples
}

// taken returns the bytes that an action needs when it begins.
func (t *Timeline) taken(a Action) float64 {
	if a.Kind == Forward {
		return t.activation[a.Stage]
	}
	return 0
}

// freed returns the bytes that an action no longer needs when it has ended.
func (t *Timeline) freed(a Action) float64 {
	switch a.Kind {
	case Backward:
		return t.activation[a.Stage]
	case Input:
		return t.activation[a.Stage] - t.kept[a.Stage]
	case Weight:
		return t.kept[a.Stage]
	}
	return 0
}

// Clone returns a copy that later runs of the simulator do not change.
func (t *Timeline) Clone() *Timeline {
	c := *t
	c.Ranks = make([][]Span, len(t.Ranks))
	for r, spans := range t.Ranks {
		c.Ranks[r] = append([]Span(nil), spans...)
	}
	c.Messages = append([]Message(nil), t.Messages...)
	c.Work, c.First, c.Last = append([]float64(nil), t.Work...), append([]float64(nil),
		t.First...), append([]float64(nil), t.Last...)
	c.PeakBytes, c.PeakLive = append([]float64(nil), t.PeakBytes...), append([]int(nil), t.PeakLive...)
	c.activation, c.kept = append([]float64(nil), t.activation...), append([]float64(nil), t.kept...)
	return &c
}

// begin resets the timeline for a schedule.
func (t *Timeline) begin(s *Schedule) {
	ranks := len(s.Ranks)
	t.Schedule, t.Makespan, t.Messages = s, 0, t.Messages[:0]
	t.Ranks = reset(t.Ranks, ranks, nil)
	t.Work, t.First, t.Last = reset(t.Work, ranks, 0), reset(t.First, ranks, 0), reset(t.Last, ranks, 0)
	t.PeakBytes, t.PeakLive = reset(t.PeakBytes, ranks, 0), reset(t.PeakLive, ranks, 0)
}

// account records what an action takes and frees. In a joined pair the forward comes first, so the peak
// counts both.
func (m *Simulator) account(r int, a *step) {
	switch a.Kind {
	case Forward:
		m.live[r] += m.table.activation[a.Stage]
		m.count[r]++
		m.line.PeakBytes[r] = max(m.line.PeakBytes[r], m.live[r])
		m.line.PeakLive[r] = max(m.line.PeakLive[r], m.count[r])
	case Backward:
		m.live[r] -= m.table.activation[a.Stage]
		m.count[r]--
	case Input:
		m.live[r] -= m.table.activation[a.Stage] - m.table.kept[a.Stage]
	case Weight:
		m.live[r] -= m.table.kept[a.Stage]
		m.count[r]--
	}
}

// finish sums up.
func (m *Simulator) finish() {
	m.line.activation = append(m.line.activation[:0], m.table.activation...)
	m.line.kept = append(m.line.kept[:0], m.table.kept...)
	m.line.bounds()
}

// bounds determines when ranks begin to compute and when they end. Their spans are in order.
func (t *Timeline) bounds() {
	for r, spans := range t.Ranks {
		n := len(spans)
		if n == 0 {
			continue
		}
		t.Last[r] = spans[n-1].End
		t.Makespan = max(t.Makespan, t.Last[r])
		for _, x := range spans {
			if x.Kind.Computes() {
				t.First[r] = x.Start
				break
			}
		}
	}
}

// Measured returns the timeline of a run whose spans were measured: for each rank those of its actions, in
// order, in seconds from a common start. Waiting counts as idle, whether a rank waits in a receive or between
// actions.
func Measured(s *Schedule, ranks [][]Span) *Timeline {
	t := &Timeline{}
	t.begin(s)
	copy(t.Ranks, ranks)
	t.activation, t.kept = make([]float64, s.Stages), make([]float64, s.Stages)
	for r, spans := range t.Ranks {
		end := 0.0
		for _, x := range spans {
			if x.Kind.Computes() && x.End > end {
				t.Work[r] += x.End - max(x.Start, end)
				end = x.End
			}
		}
	}
	t.bounds()
	return t
}
