package pipeline

// blank returns a schedule with stages placed and no actions yet.
func blank(c Config, place []int) *Schedule {
	return &Schedule{Stages: len(place), Micros: c.Micros, Place: place, Ranks: make([][]Action, c.Ranks)}
}

// forwardThenBackward is GPipe: all forwards, then all backwards.
func forwardThenBackward(c Config) *Schedule {
	s := blank(c, Cyclic(c.Ranks, 1))
	for r := range s.Ranks {
		own := func(i int) (int, int) { return r, i }
		s.Ranks[r] = alternate(c.Micros, c.Micros, own, own)
	}
	return s
}

// oneForwardOneBackward keeps at most ranks - r micro-batches alive on rank r [PipeDream-flush, Narayanan et
// al. 2021].
func oneForwardOneBackward(c Config) *Schedule {
	s := blank(c, Cyclic(c.Ranks, 1))
	for r := range s.Ranks {
		own := func(i int) (int, int) { return r, i }
		s.Ranks[r] = alternate(c.Ranks-r-1, c.Micros, own, own)
	}
	return s
}

// alternate returns warm forwards, then a forward and a backward in turn, then the remaining backwards.
// forward and backward return the i-th stage and micro-batch.
func alternate(warm, n int, forward, backward func(i int) (stage, micro int)) []Action {
	actions := make([]Action, 0, 2*n)
	add := func(k Kind, stage, micro int) { actions = append(actions, act(stage, k, micro)) }
	warm = min(warm, n)
	for i := range warm {
		stage, micro := forward(i)
		add(Forward, stage, micro)
	}
	for i := range n {
		if warm+i < n {
			stage, micro := forward(warm + i)
			add(Forward, stage, micro)
		}
		stage, micro := backward(i)
		add(Backward, stage, micro)
	}
	return actions
}

// interleaved returns 1F1B over several chunks per rank [Narayanan et al. 2021, §2.2]. Micro-batches pass the
// chunks in groups. The paper's groups have as many micro-batches as there are ranks, so that their number
// must be a multiple. Here a remainder is spread over the groups: a group may be larger than the number of
// ranks, which costs memory, but never smaller unless there are fewer micro-batches than ranks, which would
// cost time.
func interleaved(c Config) *Schedule {
	if c.Chunks == 1 {
		return oneForwardOneBackward(c)
	}
	s := blank(c, Cyclic(c.Ranks, c.Chunks))
	order := grouped(c)
	n, first := len(order), groupSize(c, 0)
	for r := range s.Ranks {
		warm := 2*(c.Ranks-r-1) + (c.Chunks-1)*first
		s.Ranks[r] = alternate(warm, n,
			func(i int) (int, int) { return order[i].chunk*c.Ranks + r, order[i].micro },
			func(i int) (int, int) { return (c.Chunks-1-order[i].chunk)*c.Ranks + r, order[i].micro })
	}
	return s
}

// turn is one chunk of one micro-batch.
type turn struct{ chunk, micro int }

// grouped returns the order of turns: group by group, in each chunk by chunk, in each micro-batch by
// micro-batch.
func grouped(c Config) []turn {
	order := make([]turn, 0, c.Micros*c.Chunks)
	start := 0
	for g := 0; start < c.Micros; g++ {
		size := groupSize(c, g)
		for chunk := range c.Chunks {
			for i := range size {
				order = append(order, turn{chunk, start + i})
			}
		}
		start += size
	}
	return order
}

// groupSize spreads the micro-batches over as many groups as have at least one for each rank.
func groupSize(c Config, g int) int {
	groups := max(1, c.Micros/c.Ranks)
	size := c.Micros / groups
	if g < c.Micros%groups {
		size++
	}
	return size
}
