package jit

import (
	"github.com/galley-ml/galley/internal/lane"
)

// plain maps lane ops to instructions with two operands.
var plain = map[lane.Op]ins{lane.Add: vaddps, lane.Sub: vsubps, lane.Mul: vmulps, lane.Div: vdivps,
	lane.Min: vminps, lane.Max: vmaxps, lane.And: vandps, lane.Or: vorps, lane.Xor: vxorps,
	lane.AddInt: vpaddd, lane.SubInt: vpsubd}

// multiply maps lane ops to instructions that overwrite their first operand.
var multiply = map[lane.Op]ins{lane.MulAdd: vfmadd213ps, lane.AddMul: vfmadd231ps, lane.DedMul: vfnmadd231ps,
	lane.MulDed: vfmsub231ps, lane.OrAnd: vpternlogd}

// orAnd is the truth table of a | b&c.
const orAnd = 0xf8

// inst generates one instruction.
func (s *stepper) inst(i *inst) {
	if i.kind != laneInst {
		s.special(i)
		return
	}
	if op, ok := plain[i.Op]; ok {
		x, y := s.reg(i.Arg[0], work), s.source(i.Arg[1])
		s.c.withSource(op, s.c.full(), s.result(i), x, y)
		return
	}
	if op, ok := multiply[i.Op]; ok {
		s.multiply(op, i)
		return
	}
	s.other(i)
}

// multiply emits a fused multiply-add, on a copy of the first operand if that is needed again.
func (s *stepper) multiply(op ins, i *inst) {
	y, z := s.reg(i.Arg[1], work), s.source(i.Arg[2])
	first := i.Arg[0]
	var dst int
	if s.dies(first) && first.Reg != i.Arg[1].Reg && first != i.Arg[2] {
		dst = s.at[first.Reg]
		s.drop(first.Reg)
		s.take(i.Dst, dst)
	} else {
		x := s.reg(first, work2)
		dst = s.take(i.Dst, s.room())
		s.c.rr(vmovups, s.c.full(), dst, 0, x)
	}
	f := s.c.full()
	if i.Op == lane.OrAnd {
		f.imm = orAnd
	}
	s.c.withSource(op, f, dst, y, z)
}

func (s *stepper) other(i *inst) {
	c, f := s.c, s.c.full()
	switch i.Op {
	case lane.Load:
		x := s.source(i.Arg[0])
		switch {
		case i.Arg[0].IsConst() && x.inMemory:
			c.loadConst(s.result(i), i.Arg[0].Bits)
		default:
			c.withSource(vmovups, f, s.result(i), 0, x)
		}
	case lane.Sqrt:
		x := s.reg(i.Arg[0], work)
		c.rr(vsqrtps, f, s.result(i), 0, x)
	case lane.ToHalf:
		x := s.reg(i.Arg[0], work)
		f.imm = 0
		c.rr(vcvtps2ph, f, x, 0, work2)
		f.imm = -1
		c.rr(vcvtph2ps, f, s.result(i), 0, work2)
	case lane.FromInt:
		x := s.reg(i.Arg[0], work)
		c.rr(vcvtdq2ps, f, s.result(i), 0, x)
	case lane.ShiftL, lane.ShiftR, lane.ShiftDown:
		x, kind := s.reg(i.Arg[0], work), 6
		switch i.Op {
		case lane.ShiftR:
			kind = 4
		case lane.ShiftDown:
			kind = 2
		}
		f.imm = int(i.Imm)
		c.shift(f, kind, s.result(i), x)
	case lane.Round:
		x := s.reg(i.Arg[0], work)
		f.imm = int(i.Imm) | 8 // suppress the precision exception
		c.rr(vroundps, f, s.result(i), 0, x)
	case lane.Compare:
		x, y := s.reg(i.Arg[0], work), s.source(i.Arg[1])
		s.compare(i, x, y)
	case lane.Choose:
		s.choose(i)
	case lane.Select:
		s.choosing(i)
	case lane.Scale:
		x, y := s.reg(i.Arg[0], work), s.source(i.Arg[1])
		z := s.reg(i.Arg[2], work2)
		s.truth(i.Imm, z, s.source(i.Arg[3]), 0)
		f.mask, f.zero = workK, true
		c.withSource(vscalefps, f, s.result(i), x, y)
	}
}

// truth compares into the temporary opmask register, AVX-512.
func (s *stepper) truth(predicate uint8, x int, y source, within int) {
	f := s.c.full()
	f.imm, f.mask = int(predicate), within
	s.c.withSource(vcmpps, f, workK, x, y)
}

func (s *stepper) compare(i *inst, x int, y source) {
	c, f := s.c, s.c.full()
	if c.wide {
		s.truth(i.Imm, x, y, 0)
		c.rr(vpmovm2d, f, s.result(i), 0, workK)
		return
	}
	f.imm = int(i.Imm)
	c.withSource(vcmpps, f, s.result(i), x, y)
}

// choose compares and selects one of two operands.
func (s *stepper) choose(i *inst) {
	c, f := s.c, s.c.full()
	x, y, yes := s.reg(i.Arg[0], work), s.source(i.Arg[1]), s.source(i.Arg[2])
	no := s.reg(i.Arg[3], work2)
	if c.wide {
		s.truth(i.Imm, x, y, 0)
		f.mask = workK
		c.withSource(vblendmps, f, s.result(i), no, yes)
		return
	}
	f.imm = int(i.Imm)
	c.withSource(vcmpps, f, work, x, y)
	f.imm = work << 4
	c.withSource(vblendvps, f, s.result(i), no, yes)
}

// choosing selects one of two operands by a truth value.
func (s *stepper) choosing(i *inst) {
	c, f := s.c, s.c.full()
	truth, yes, no := s.reg(i.Arg[0], work), s.source(i.Arg[1]), s.reg(i.Arg[2], work2)
	if c.wide {
		c.rr(vpmovd2m, f, workK, 0, truth)
		f.mask = workK
		c.withSource(vblendmps, f, s.result(i), no, yes)
		return
	}
	f.imm = truth << 4
	c.withSource(vblendvps, f, s.result(i), no, yes)
}

// special generates loads, stores and folds.
func (s *stepper) special(i *inst) {
	c, f := s.c, s.c.full()
	switch i.kind {
	case streamIn:
		s.streamIn(i)
	case streamOut:
		s.streamOut(i)
	case streamAdd:
		m := s.place(i.index)
		s.masking(&f, true)
		s.loadMasked(f, work, m)
		y := s.source(i.Arg[0])
		c.withSource(vaddps, c.full(), work, work, y)
		s.storeMasked(f, work, s.place(i.index))
	case keptIn:
		c.rm(vmovups, f, s.result(i), 0, s.keptAt(i.index))
	case keptOut:
		c.rm(vmovupsTo, f, s.reg(i.Arg[0], work), 0, s.keptAt(i.index))
	case foldIn:
		s.fold(&s.p.folds[i.index], i.Arg[0])
	case rowIn:
		s.rowIn(i)
	case slotOut:
		c.rm(vmovupsTo, f, s.reg(i.Arg[0], work), 0, c.slot(i.index))
	case rowOut:
		s.rowOut(i)
	}
}

func (s *stepper) keptAt(value int) mem {
	m := s.c.kept[value]
	m.disp += int32(s.c.size * s.disp)
	return m
}

// place returns the memory operand of a stream at this step.
func (s *stepper) place(stream int) mem {
	bytes := s.c.p.Bytes[stream]
	base, ok := s.p.reg[stream]
	if !ok {
		s.c.load(rax, s.c.pointer(stream))
		base = rax
	}
	return mem{base: base, index: rcx, scale: bytes, disp: int32(bytes * s.disp)}
}

// masking masks a form to the lanes that exist: a load sets the others to zero.
func (s *stepper) masking(f *form, load bool) {
	if s.masked && s.c.wide {
		f.mask, f.zero = tailK, load
	}
}

func (s *stepper) loadMasked(f form, r int, m mem) {
	if s.masked && !s.c.wide {
		s.loadMask(work2)
		s.c.rm(vmaskmovps, f, r, work2, m)
		return
	}
	s.c.rm(vmovups, f, r, 0, m)
}

func (s *stepper) storeMasked(f form, r int, m mem) {
	f.zero = false
	if s.masked && !s.c.wide {
		s.loadMask(work2)
		s.c.rm(vmaskmovpsTo, f, r, work2, m)
		return
	}
	s.c.rm(vmovupsTo, f, r, 0, m)
}

// loadMask loads the mask of the last vector of a row, AVX2.
func (s *stepper) loadMask(r int) {
	s.c.rm(vmovups, s.c.full(), r, 0, mem{constant: s.c.tailMask + 1})
}

func (s *stepper) streamIn(i *inst) {
	c, f := s.c, s.c.full()
	m := s.place(i.index)
	s.masking(&f, true)
	if c.p.Bytes[i.index] == c.size {
		s.loadMasked(f, s.result(i), m)
		return
	}
	r := s.result(i)
	if c.p.Bytes[i.index] == 2 {
		s.widen(f, i.index, r, m)
		return
	}
	c.rm(vpmovzxbd, f, r, 0, m)
	s.spread(r)
}

// widen loads 16-bit floats and widens them.
func (s *stepper) widen(f form, stream, r int, m mem) {
	if s.c.isHalf(stream) {
		s.c.rm(vcvtph2ps, f, r, 0, m)
		return
	}
	s.c.rm(vpmovzxwd, f, r, 0, m)
	f = s.c.full()
	f.imm = 16
	s.c.shift(f, 6, r, r)
}

// narrow stores lanes as 16-bit floats; they hold values that are exact in that format.
func (s *stepper) narrow(f form, stream, x int, m mem) {
	if s.c.isHalf(stream) {
		f.imm = 0
		s.c.rm(vcvtps2ph, f, x, 0, m)
		return
	}
	shift := s.c.full()
	shift.imm = 16
	s.c.shift(shift, 2, work, x)
	s.c.rm(vpmovdw, f, work, 0, m)
}

func (c *compiler) isHalf(stream int) bool { return stream < len(c.p.Half) && c.p.Half[stream] }

// spread turns a lane whose lowest bit is set into all ones.
func (s *stepper) spread(r int) {
	f := s.c.full()
	f.imm = 8*s.c.size - 1
	s.c.shift(f, 6, r, r)
	s.c.shift(f, 4, r, r)
}

func (s *stepper) streamOut(i *inst) {
	c, f := s.c, s.c.full()
	m := s.place(i.index)
	s.masking(&f, false)
	if c.p.Bytes[i.index] == c.size && !s.masked && c.past(i.index) {
		c.rm(vmovntps, f, s.reg(i.Arg[0], work), 0, m)
		return
	}
	if c.p.Bytes[i.index] == c.size {
		s.storeMasked(f, s.reg(i.Arg[0], work), m)
		return
	}
	x := s.reg(i.Arg[0], work)
	if c.p.Bytes[i.index] == 2 {
		s.narrow(f, i.index, x, m)
		return
	}
	c.with(vandps, work, x, c.constant(1))
	c.rm(vpmovdb, f, work, 0, m)
}

// rowIn loads one value into every lane.
func (s *stepper) rowIn(i *inst) {
	c := s.c
	c.load(rax, c.pointer(i.index))
	r := s.result(i)
	if c.p.Bytes[i.index] == c.size {
		c.rm(vbroadcastss, c.full(), r, 0, at(rax, 0))
		return
	}
	if c.p.Bytes[i.index] == 2 {
		f := c.full()
		f.mask, f.zero = s.oneLane(), true
		c.load(rax, c.pointer(i.index))
		s.widen(f, i.index, work, at(rax, 0))
		c.rr(vbroadcastss, c.full(), r, 0, work)
		return
	}
	c.byte(0x0F, 0xB6, 0x00) // movzx eax, byte [rax]
	c.rr(vmovd, form{imm: -1}, work, 0, rax)
	c.rr(vbroadcastss, c.full(), r, 0, work)
	s.spread(r)
}

// rowOut stores one value, or one truth value.
func (s *stepper) rowOut(i *inst) {
	c := s.c
	x := s.reg(i.Arg[0], work)
	if c.p.Bytes[i.index] == c.size {
		c.load(rax, c.pointer(i.index))
		c.rm(vmovssTo, form{evex: c.wide, imm: -1}, x, 0, at(rax, 0))
		return
	}
	f := c.full()
	f.mask = s.oneLane()
	c.load(rax, c.pointer(i.index))
	if c.p.Bytes[i.index] == 2 {
		s.narrow(f, i.index, x, at(rax, 0))
		return
	}
	c.with(vandps, work, x, c.constant(1))
	c.rm(vpmovdb, f, work, 0, at(rax, 0))
}

// oneLane returns the temporary opmask register with only the first lane set.
func (s *stepper) oneLane() int {
	s.c.movImm(rax, 1)
	s.c.rr(kmovw, form{imm: -1}, workK, 0, rax)
	return workK
}

// fold adds a step to the accumulators for its position.
func (s *stepper) fold(f *fold, a lane.Arg) {
	how := s.c.p.Values[f.value].Fold
	if how == lane.FoldSum {
		s.foldSum(f.acc[s.line], a)
		return
	}
	op := vmaxps
	if how == foldMin {
		op = vminps
	}
	s.foldExtreme(f, op, how, a)
}

func (s *stepper) foldSum(acc int, a lane.Arg) {
	c, form := s.c, s.c.full()
	if s.masked && !c.wide { // missing lanes are zero
		s.loadMask(work)
		c.withSource(vandps, form, work, work, s.source(a))
		c.rr(vaddps, form, acc, acc, work)
		return
	}
	s.masking(&form, false)
	c.withSource(vaddps, form, acc, acc, s.source(a))
}

// foldExtreme folds a maximum or minimum, and records NaNs.
func (s *stepper) foldExtreme(f *fold, op ins, how lane.Fold, a lane.Arg) {
	c, full := s.c, s.c.full()
	x := s.reg(a, work2)
	acc := f.acc[s.line]
	if c.wide {
		masked := full
		s.masking(&masked, false)
		c.rr(op, masked, acc, acc, x)
		s.truth(lane.Unordered, x, source{r: x}, masked.mask)
		full.mask = workK
		c.rr(vorps, full, f.seen, f.seen, x)
		return
	}
	if s.masked {
		y := x
		if x == work2 { // the mask needs that register
			y = s.room()
			c.rr(vmovups, full, y, 0, x)
		}
		c.loadConst(work, c.p.float(extreme(how)))
		s.loadMask(work2)
		blend := full
		blend.imm = work2 << 4
		c.rr(vblendvps, blend, work, work, y)
		x = work
	}
	c.rr(op, full, acc, acc, x)
	compare := full
	compare.imm = lane.Unordered
	c.rr(vcmpps, compare, work, x, x)
	c.rr(vorps, full, f.seen, f.seen, work)
}

// pin loads the pointers of the pass's streams into registers, as far as there are any.
func (p *pass) pin() {
	for i := range p.steps {
		in := &p.steps[i]
		if in.kind != streamIn && in.kind != streamOut && in.kind != streamAdd {
			continue
		}
		if _, ok := p.reg[in.index]; !ok && len(p.reg) < len(pinned) {
			p.reg[in.index] = pinned[len(p.reg)]
			p.c.load(p.reg[in.index], p.c.pointer(in.index))
		}
	}
	if p.fetches {
		p.fetch()
	}
}
