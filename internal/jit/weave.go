package jit

// weaveFrom is from how many instructions on, for each vector that is read or written, several vectors are
// woven: steps with fewer wait for memory, and not for each other.
const weaveFrom = 8

// mostWoven returns how many vectors may be woven.
func (p *pass) mostWoven() int {
	computed, moved := 0, 0
	for i := range p.steps {
		switch p.steps[i].kind {
		case laneInst:
			computed++
		case streamIn, streamOut, streamAdd, keptIn, keptOut:
			moved++
		}
	}
	if computed < weaveFrom*moved {
		return 1
	}
	return p.lines
}

// unrolled writes the steps of a turn of the loop.
func (p *pass) unrolled() {
	n := max(p.woven, 1)
	list := p.weave(n)
	for u := 0; u < p.lines; u += n {
		p.write(list, n, u, u*p.c.lanes, false)
	}
}

// weave returns the instructions of so many vectors in turns, each with registers of its own but for numbers
// of rows. An instruction waits for the one before it of the same vector, several cycles: turns give the
// processor others meanwhile, without having to look for them far ahead.
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

// ofVector returns an instruction of one of the vectors, whose registers are so many behind the first one's.
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
