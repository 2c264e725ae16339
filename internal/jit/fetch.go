package jit

// fetchPhases is the least number of phases with which a pass prefetches: with one or two, memory is busy
// with the row itself.
const fetchPhases = 3

// busiest returns the phase that computes most, during which memory would be idle; -1 if nothing is to be
// prefetched.
func (c *compiler) busiest() int {
	best, most := -1, -1
	if c.phases < fetchPhases {
		return best
	}
	for phase := range c.phases {
		p := &pass{c: c}
		for i, v := range c.p.Values {
			if v.Kind == Fold && v.Phase == phase+1 {
				p.folds = append(p.folds, fold{value: i})
			}
		}
		p.plan(phase, true)
		computed, _ := p.counts()
		if computed >= most { // the later one, if equal: its rows are read sooner
			best, most = phase, computed
		}
	}
	return best
}

// fetch keeps pointers to the next row of the streams that its first pass reads, and to this row of streams
// that later passes write.
func (p *pass) fetch() {
	c := p.c
	free := pinned[len(p.reg):]
	if !p.sums() || c.p.Cols <= leaf { // else leaves counts in it
		free = append([]int{r13}, free...)
	}
	next := func() (int, bool) {
		if len(free) == 0 {
			return 0, false
		}
		r := free[0]
		free = free[1:]
		return r, true
	}
	for i, v := range c.p.Values {
		if v.Kind != Stream || v.Level != Elem || v.Phase != 0 || v.Truth || !c.readFirst(i) {
			continue
		}
		if r, ok := next(); ok {
			p.ahead = append(p.ahead, r)
			c.load(r, c.pointer(v.Stream))
			c.addMem(r, at(rdi, 8*(argStreams+argStream*v.Stream+1)))
		}
	}
	for _, s := range c.p.Stores {
		v := c.p.Values[s.Value]
		if v.Level != Elem || v.Phase <= c.fetching || c.p.Bytes[s.Stream] != c.size || c.past(s.Stream) {
			continue
		}
		if r, ok := next(); ok {
			p.written = append(p.written, r)
			c.load(r, c.pointer(s.Stream))
		}
	}
}

// prefetch prefetches what belongs to the columns disp after CX.
func (p *pass) prefetch(disp int) {
	c := p.c
	for _, r := range p.ahead {
		c.prefetch(mem{base: r, index: rcx, scale: c.size, disp: int32(c.size * disp)}, false)
	}
	for _, r := range p.written {
		c.prefetch(mem{base: r, index: rcx, scale: c.size, disp: int32(c.size * disp)}, true)
	}
}

// readFirst reports whether the first pass over a row reads a stream for a fold.
func (c *compiler) readFirst(i int) bool {
	for _, v := range c.p.Values {
		if v.Kind == Fold && v.Phase == 1 && c.reaches(v.In[0], i) {
			return true
		}
	}
	return false
}

func (c *compiler) reaches(from, to int) bool {
	if from == to {
		return true
	}
	for _, x := range c.p.Values[from].In {
		if c.p.Values[from].Kind != Fold && c.reaches(x, to) {
			return true
		}
	}
	return false
}
