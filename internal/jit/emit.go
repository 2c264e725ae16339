package jit

import (
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/lane"
)

// Vector registers that are reserved as temporaries for operands.
const (
	work  = 0
	work2 = 1
)

// stepper generates one step: it allocates registers for the virtual ones.
type stepper struct {
	p      *pass
	c      *compiler
	list   []inst
	line   int
	disp   int // column offset from CX
	masked bool
	last   []int       // the last instruction that uses a virtual register
	at     map[int]int // the register of a virtual one
	in     []int       // the virtual register in a register, -1 if none
	saved  map[int]int // the memory of a spilled one
	now    int
	busy   []int // registers of the current instruction's operands
}

// step generates the pass' instructions for the columns disp after CX; masked means a partial vector.
func (p *pass) step(line, disp int, masked bool) { p.write(p.steps, 1, line, disp, masked) }

// write generates a list of instructions for the given number of vectors, the first at line and disp.
func (p *pass) write(list []inst, vectors, line, disp int, masked bool) {
	s := &stepper{p: p, c: p.c, list: list, masked: masked, at: map[int]int{}, saved: map[int]int{}}
	s.in = slices.Repeat([]int{-1}, p.limit)
	for i := range list {
		for _, a := range list[i].args() {
			if !a.IsConst() {
				for len(s.last) <= a.Reg {
					s.last = append(s.last, -1)
				}
				s.last[a.Reg] = i
			}
		}
	}
	for k := range vectors {
		if !masked {
			p.prefetch(disp + k*p.c.lanes)
		}
	}
	for i := range list {
		in := &list[i]
		s.now, s.busy = i, s.busy[:0]
		s.line, s.disp = line+in.vector, disp+in.vector*p.c.lanes
		if p.loaded[in.Dst] {
			continue
		}
		s.inst(in)
		s.release(in)
	}
}

// release frees the registers of values that are not used any more.
func (s *stepper) release(i *inst) {
	for _, a := range i.args() {
		if !a.IsConst() && s.last[a.Reg] <= s.now {
			s.drop(a.Reg)
		}
	}
	if i.Dst >= 0 && (i.Dst >= len(s.last) || s.last[i.Dst] < 0) {
		s.drop(i.Dst)
	}
}

func (s *stepper) drop(v int) {
	if r, ok := s.at[v]; ok {
		s.in[r] = -1
		delete(s.at, v)
	}
}

// dies reports whether this instruction is the last to use an operand that has a register.
func (s *stepper) dies(a lane.Arg) bool {
	_, here := s.at[a.Reg]
	return !a.IsConst() && here && s.last[a.Reg] <= s.now
}

// room returns a free register; if there is none it spills the value whose next use is the latest.
func (s *stepper) room() int {
	best, far := -1, -1
	for r := work2 + 1; r < len(s.in); r++ {
		v := s.in[r]
		if v < 0 {
			return r
		}
		if next := s.next(v); !slices.Contains(s.busy, r) && next > far {
			best, far = r, next
		}
	}
	v := s.in[best]
	if _, ok := s.saved[v]; !ok {
		s.saved[v] = len(s.saved)
		s.c.spills = max(s.c.spills, len(s.saved))
		s.c.rm(vmovupsTo, s.c.full(), best, 0, s.spill(v))
	}
	delete(s.at, v)
	s.in[best] = -1
	return best
}

func (s *stepper) spill(v int) mem { return at(rdx, s.c.spillBase+s.saved[v]*slotBytes) }

// next returns the instruction that uses a virtual register next.
func (s *stepper) next(v int) int {
	for i := s.now; i < len(s.list); i++ {
		for _, a := range s.list[i].args() {
			if a.Reg == v {
				return i
			}
		}
	}
	return math.MaxInt
}

// result allocates a register for the result; it may reuse that of an operand that dies.
func (s *stepper) result(i *inst) int {
	for _, a := range i.args() {
		if s.dies(a) {
			r := s.at[a.Reg]
			s.drop(a.Reg)
			return s.take(i.Dst, r)
		}
	}
	return s.take(i.Dst, s.room())
}

func (s *stepper) take(v, r int) int {
	s.at[v], s.in[r] = r, v
	s.p.used = max(s.p.used, r+1)
	s.busy = append(s.busy, r)
	return r
}

// reg returns an operand in a register: its own, or spare for constants and values of rows.
func (s *stepper) reg(a lane.Arg, spare int) int {
	if r, ok := s.p.fixed(a); ok {
		return r
	}
	if a.IsConst() {
		s.c.loadConst(spare, a.Bits)
		return spare
	}
	if value, ok := s.p.slots[a.Reg]; ok {
		s.c.rm(vmovups, s.c.full(), spare, 0, s.c.slot(value))
		return spare
	}
	r, ok := s.at[a.Reg]
	if !ok {
		r = s.take(a.Reg, s.room())
		s.c.rm(vmovups, s.c.full(), r, 0, s.spill(a.Reg))
	}
	s.busy = append(s.busy, r)
	return r
}

// source is an operand that may be in memory.
type source struct {
	inMemory, bcast bool
	m               mem
	r               int
}

// source returns where an operand is: a constant, a value of a row, spilled, or in a register.
func (s *stepper) source(a lane.Arg) source {
	if r, ok := s.p.fixed(a); ok {
		return source{r: r}
	}
	if a.IsConst() {
		return source{inMemory: true, bcast: s.c.wide, m: s.c.constant(a.Bits)}
	}
	if value, ok := s.p.slots[a.Reg]; ok {
		return source{inMemory: true, m: s.c.slot(value)}
	}
	r, ok := s.at[a.Reg]
	if !ok {
		return source{inMemory: true, m: s.spill(a.Reg)}
	}
	s.busy = append(s.busy, r)
	return source{r: r}
}

// withSource emits an instruction with a source operand.
func (c *compiler) withSource(i ins, f form, reg, vvvv int, x source) {
	if x.inMemory {
		f.bcast = x.bcast
		c.rm(i, f, reg, vvvv, x.m)
		return
	}
	c.rr(i, f, reg, vvvv, x.r)
}

// with emits an instruction on a register and a constant.
func (c *compiler) with(i ins, reg, vvvv int, m mem) {
	f := c.full()
	f.bcast = c.wide
	c.rm(i, f, reg, vvvv, m)
}

func (c *compiler) loadConst(r int, bits uint64) {
	if c.wide {
		c.rm(vbroadcastss, c.full(), r, 0, c.constant(bits))
		return
	}
	c.rm(vmovups, c.full(), r, 0, c.constant(bits))
}

func (c *compiler) zero(r int) { c.rr(vxorps, c.full(), r, r, r) }
