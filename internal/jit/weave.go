package jit

// weaveFrom is the least number of instructions, per vector loaded or stored, for which several vectors are
// interleaved: steps with fewer wait for memory, not for each other.
const weaveFrom = 8

// counts returns the instructions of a step that compute, and those that load or store.
func (p *pass) counts() (computed, moved int) {
	for i := range p.steps {
		switch p.steps[i].kind {
		case laneInst:
			computed++
		case streamIn, streamOut, streamAdd, keptIn, keptOut:
			moved++
		}
	}
	return computed, moved
}

// mostWoven returns the most vectors that may be interleaved.
func (p *pass) mostWoven() int {
	if computed, moved := p.counts(); computed < weaveFrom*moved {
		return 1
	}
	return p.lines
}

// unrolled generates the steps of an iteration of the loop.
func (p *pass) unrolled() {
	n := max(p.woven, 1)
	list := p.weave(n)
	for u := 0; u < p.lines; u += n {
		p.write(list, n, u, u*p.c.lanes, false)
	}
}

// weave interleaves the instructions of the given number of vectors, each with registers of its own except
// for row values. An instruction waits several cycles for the previous one of the same vector; interleaving
// gives the processor others meanwhile, without a large out-of-order window.
func (p *pass) weave(vectors int) []inst {
	if vectors == 1 {
		return p.steps
	}
	regs := 0
	for i := range p.steps {
		regs = max(regs, p.steps[i].Dst+1)
	}
	for r := range p.slots {
		regs = max(regs, r+1)
	}
	var list []inst
	for i := range p.steps {
		if p.loaded[p.steps[i].Dst] {
			continue
		}
		for k := range vectors {
			list = append(list, p.ofVector(p.steps[i], k, k*regs))
		}
	}
	return list
}

// ofVector returns an instruction for one of the vectors, with its registers offset by regs a vector.
func (p *pass) ofVector(in inst, vector, regs int) inst {
	in.vector = vector
	for k, a := range in.args() {
		if _, row := p.slots[a.Reg]; !a.IsConst() && !row {
			in.Arg[k].Reg += regs
		}
	}
	if in.Dst >= 0 {
		in.Dst += regs
	}
	return in
}
