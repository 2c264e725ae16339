package pipeline

// ForwardHalf returns the forward part of a schedule for the first micros of its micro-batches: the forward
// actions of every rank in their order, lowered.
func ForwardHalf(s *Schedule, micros int) *Schedule {
	half := *s
	half.Micros = min(micros, s.Micros)
	half.Ranks = make([][]Action, len(s.Ranks))
	for r, actions := range s.Ranks {
		for _, a := range actions {
			if a.Kind == Forward && a.Micro < half.Micros {
				a.Joined = false
				half.Ranks[r] = append(half.Ranks[r], a)
			}
		}
	}
	l := lowering{s: &half, f: flow{s: &half}}
	l.queues()
	out := half
	out.Ranks = make([][]Action, len(s.Ranks))
	for r := range s.Ranks {
		out.Ranks[r] = l.rank(r)
	}
	return &out
}
