package ptx

// pair is two units that run together.
type pair struct {
	*machine
	// first is the number of the first one's block.
	first int
	units [pairUnits]*unit
	// ready is the threads that can continue, now the instruction that runs, err the first thing that went
	// wrong.
	ready []*thread
	now   *instruction
	err   error
	// copies is those under way.
	copies []landing
	// living is the threads that have not ended; arrived those at the barrier of the pair, round how often it
	// was passed, waiting who waits there.
	living, arrived, round int
	waiting                []*thread
	// nowhere is read and written in place of memory that is not there, after a fault.
	nowhere [256]byte
}

// unit is one of a pair.
type unit struct {
	pair    *pair
	rank    int
	memory  []byte
	threads []*thread
	living  int
	// barriers is those in its memory, named those with a number.
	barriers []*ringBarrier
	named    [16]namedBarrier
}

func newPair(m *machine) *pair {
	p := &pair{machine: m}
	for rank := range p.units {
		u := &unit{pair: p, rank: rank, memory: make([]byte, m.kernel.Shared)}
		for i := range m.kernel.Threads {
			t := &thread{unit: u, index: i, regs: make([]uint64, m.prog.regs), state: make([]uint8, m.prog.regs)}
			u.threads = append(u.threads, t)
		}
		p.units[rank] = u
	}
	return p
}

// crews puts threads together that run some instructions together.
func (u *unit) crews() {
	for i := 0; i < len(u.threads); i += groupThreads {
		group := &crew{threads: u.threads[i : i+groupThreads]}
		for j := 0; j < groupThreads; j += warpThreads {
			warp := &crew{threads: group.threads[j : j+warpThreads]}
			for _, t := range warp.threads {
				t.warp, t.group = warp, group
			}
		}
	}
}

// reset is before the pair runs its blocks: nothing is known of what the memory holds, and no register is
// written.
func (p *pair) reset(first int) {
	p.first, p.ready, p.copies, p.waiting = first, p.ready[:0], nil, nil
	p.arrived, p.round, p.living = 0, 0, 0
	for _, u := range p.units {
		garbage(u.memory)
		u.crews()
		u.barriers, u.named, u.living = nil, [16]namedBarrier{}, len(u.threads)
		p.living += len(u.threads)
		for _, t := range u.threads {
			clear(t.state)
			t.pc, t.at, t.fenced, t.seen, t.arrived, t.missed = 0, nil, false, nil, false, nil
			t.copying = nil
			p.ready = append(p.ready, t)
		}
	}
	if p.dice != nil {
		p.shuffle()
	}
}

// run runs the threads, each as long as it can. Copies happen when all wait, if not before.
func (p *pair) run() error {
	for p.err == nil {
		for len(p.ready) > 0 && p.err == nil {
			p.follow(p.next())
		}
		switch {
		case p.err != nil:
		case len(p.copies) > 0:
			c := p.copies[0]
			p.copies = p.copies[1:]
			p.land(c)
		case p.living > 0:
			return p.stuck()
		default:
			return nil
		}
	}
	return p.err
}

// next returns the thread that continues: the one that has waited longest, or with dice mostly the last one
// that was woken, so that few get far ahead of the others.
func (p *pair) next() *thread {
	if p.dice == nil {
		t := p.ready[0]
		p.ready = p.ready[1:]
		return t
	}
	last := len(p.ready) - 1
	i := last
	if p.dice.IntN(16) == 0 {
		i = p.dice.IntN(last + 1)
	}
	t := p.ready[i]
	p.ready[i] = p.ready[last]
	p.ready = p.ready[:last]
	return t
}

// shuffle brings the warps into any order.
func (p *pair) shuffle() {
	p.dice.Shuffle(len(p.ready)/warpThreads, func(i, j int) {
		for n := range warpThreads {
			a, b := i*warpThreads+n, j*warpThreads+n
			p.ready[a], p.ready[b] = p.ready[b], p.ready[a]
		}
	})
}

// wake lets a thread continue.
func (p *pair) wake(list ...*thread) { p.ready = append(p.ready, list...) }

// leave is what a thread's end means for others.
func (p *pair) leave(t *thread) {
	if len(t.group.products) > 0 {
		p.fault(t, "%d products are under way: want a wait for them", len(t.group.products))
	}
	if len(t.copying) > 0 {
		p.fault(t, "copies are under way: want a wait for them")
	}
	p.living--
	if t.unit.living--; t.unit.living == 0 {
		for _, c := range p.copies {
			if c.units>>t.unit.rank&1 != 0 {
				p.fault(t, "the block ends while copies to it are under way (line %d): want a wait for them", c.in.line)
			}
		}
	}
	p.pass()
}
