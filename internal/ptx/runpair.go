package ptx

// pair is a cluster of two blocks that run together.
type pair struct {
	*machine
	// first is the index of its first block.
	first int
	units [pairUnits]*unit
	// ready lists the threads that can continue, now is the current instruction, err the first
	// error.
	ready []*thread
	now   *instruction
	err   error
	// copies lists the copies in flight.
	copies []landing
	// living is the number of threads that have not exited; arrived those at the cluster barrier, round how
	// often it was passed, waiting the threads that wait there.
	living, arrived, round int
	waiting                []*thread
	// nowhere is accessed instead of memory that does not exist, after a fault.
	nowhere [256]byte
}

// unit is one block of the cluster, on its own SM.
type unit struct {
	pair    *pair
	rank    int
	memory  []byte
	threads []*thread
	living  int
	// barriers lists the mbarriers in its shared memory, named its numbered barriers.
	barriers []*ringBarrier
	named    [16]namedBarrier
}

func newPair(m *machine) *pair {
	p := &pair{machine: m}
	for rank := range p.units {
		u := &unit{pair: p, rank: rank, memory: make([]byte, m.kernel.Shared+m.prog.static)}
		for i := range m.kernel.Threads {
			t := &thread{unit: u, index: i, regs: make([]uint64, m.prog.regs), state: make([]uint8, m.prog.regs)}
			u.threads = append(u.threads, t)
		}
		p.units[rank] = u
	}
	return p
}

// crews groups threads that run some instructions together: warps and warpgroups.
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

// reset prepares the cluster for its next blocks: the contents of shared memory and registers are
// undefined.
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

// run runs the threads, each as long as it can. Copies happen when all threads wait, if not before.
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

// next returns the thread to continue: the one that has waited longest, or with dice mostly the last one that
// was woken, so that a few get far ahead of the others.
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

// shuffle puts the warps in random order.
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

// leave handles the exit of a thread.
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
