package ptx

import (
	"fmt"
	"math"
	"strings"
)

// thread is an emulated thread.
type thread struct {
	unit  *unit
	index int
	pc    int
	regs  []uint64
	// state is the state of each register.
	state       []uint8
	warp, group *crew
	// at is the instruction at which it waits.
	at *instruction
	// copying holds the copies that were started and not waited for, in groups, the last of which is open.
	copying [][]func()
	// fenced reports that sums were not accessed since the last fence before products.
	fenced bool
	// seen is how often a tensor map had been written when the thread acquired it.
	seen map[uint64]int
	// arrived reports that it must still wait at the cluster barrier, round the one at which it arrived.
	arrived bool
	round   int
	// missed is the barrier whose phase the thread found incomplete, and the phase.
	missed      *ringBarrier
	missedPhase uint64
}

// States of a register: in flight means that a product that was not waited for will write it.
const (
	unset uint8 = iota
	set
	inFlight
)

func (t *thread) fault(format string, args ...any) { t.unit.pair.fault(t, format, args...) }

func (t *thread) get(s source) uint64 {
	if s.reg < 0 {
		return s.number
	}
	if t.state[s.reg] != set {
		t.unread(s.reg)
	}
	return t.regs[s.reg]
}

func (t *thread) unread(reg int) {
	name := t.unit.pair.prog.name(reg)
	if t.state[reg] == inFlight {
		t.fault("%s is read: want a wait for the products that write it before", name)
		return
	}
	t.fault("%s is read: want it written before", name)
}

func (t *thread) set(reg int, value uint64) {
	if t.state[reg] == inFlight {
		t.fault("%s is written: want a wait for the products that write it before", t.unit.pair.prog.name(reg))
	}
	t.state[reg], t.regs[reg] = set, value
}

func (t *thread) u32(s source) uint32 { return uint32(t.get(s)) }

func (t *thread) f32(s source) float32 { return math.Float32frombits(uint32(t.get(s))) }

func (t *thread) setF32(reg int, x float32) { t.set(reg, uint64(math.Float32bits(x))) }

func (t *thread) setIf(reg int, holds bool) {
	value := uint64(0)
	if holds {
		value = 1
	}
	t.set(reg, value)
}

// follow runs a thread until it waits or ends.
func (p *pair) follow(t *thread) {
	for p.err == nil {
		if t.pc == len(p.prog.code) {
			p.fault(t, "the text ends: want ret")
			return
		}
		in := &p.prog.code[t.pc]
		p.now = in
		if p.left(1) {
			return
		}
		t.pc++
		if in.guard >= 0 && t.get(source{reg: in.guard}) != 0 == in.negated {
			continue
		}
		if in.touches {
			t.fenced = false
		}
		switch in.run(t) {
		case again:
			t.pc--
			t.at = in
			return
		case parked:
			t.at = in
			return
		case ended:
			t.at = nil
			p.leave(t)
			return
		}
	}
}

// left counts steps, and reports whether the limit is exceeded.
func (p *pair) left(steps int) bool {
	if p.limit -= steps; p.limit < 0 && p.err == nil {
		p.err = fmt.Errorf("line %d: %s: %w", p.now.line, p.now.text, errLimit)
	}
	return p.limit < 0
}

// crew is threads that run some instructions together: a warp or a warpgroup.
type crew struct {
	threads []*thread
	waiting int
	// products lists those in flight, committed the number of them in each committed group.
	products  []*multiplying
	committed []int
}

// arrive makes a thread wait for the others of its crew at an instruction, which the last one runs for all.
func (c *crew) arrive(t *thread, f func(c *crew)) outcome {
	if c.waiting++; c.waiting < len(c.threads) {
		return parked
	}
	c.waiting = 0
	for _, o := range c.threads {
		if o.pc != t.pc {
			t.fault("thread %d is at line %d: want all %d threads here", o.index, o.at.line, len(c.threads))
			return goOn
		}
	}
	f(c)
	for _, o := range c.threads {
		if o != t {
			t.unit.pair.wake(o)
		}
	}
	return goOn
}

// stuck reports where threads wait that will never be woken.
func (p *pair) stuck() error {
	var places []string
	counts := map[string]int{}
	for _, u := range p.units {
		for _, t := range u.threads {
			if t.at == nil {
				continue
			}
			place := fmt.Sprintf("of block %d wait at line %d: %s", p.first+u.rank, t.at.line, t.at.text)
			if counts[place]++; counts[place] == 1 {
				places = append(places, place)
			}
		}
	}
	for i, place := range places {
		places[i] = fmt.Sprintf("%d %s", counts[place], place)
	}
	return fmt.Errorf("no thread can go on: %s", strings.Join(places, "; "))
}
