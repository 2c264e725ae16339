package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// function starts a kernel.
func (s isa) function(name, signature string) {
	TEXT(name+s.name, attr.NOSPLIT, "func"+signature)
}

// finish ends a kernel without results.
func finish() {
	VZEROUPPER()
	RET()
}

// address returns the memory operand of a parameter.
func address(p gotypes.Component) operand.Mem {
	b, err := p.Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// scalar returns a register with the named float32 parameter in every lane.
func (s isa) scalar(name string) vec { return s.broadcast(address(Param(name))) }

// step is one vector of a loop, which the body of a kernel works on.
type step struct {
	isa
	lane    int // position in the unrolled loop, to choose an accumulator
	streams map[string]reg.GPVirtual
	partial bool
	k       reg.OpmaskVirtual // active lanes of a partial step, AVX-512
	m       vec               // the same for AVX2
}

// at returns the memory of the step in the named slice.
func (t step) at(name string) operand.Mem {
	return operand.Mem{Base: t.streams[name], Disp: t.lane * t.width * t.bytes()}
}

// in loads the step of the named slice, with zeros in inactive lanes.
func (t step) in(name string) vec {
	v := t.reg()
	switch {
	case !t.partial:
		VMOVUPS(t.at(name), v)
	case t.wide() && t.double:
		VMOVUPD_Z(t.at(name), t.k, v)
	case t.wide():
		VMOVUPS_Z(t.at(name), t.k, v)
	case t.double:
		VMASKMOVPD(t.at(name), t.m, v)
	default:
		VMASKMOVPS(t.at(name), t.m, v)
	}
	return v
}

// out stores the step of the named slice.
func (t step) out(name string, v vec) {
	switch {
	case !t.partial:
		VMOVUPS(v, t.at(name))
	case t.wide() && t.double:
		VMOVUPD(v, t.k, t.at(name))
	case t.wide():
		VMOVUPS(v, t.k, t.at(name))
	case t.double:
		VMASKMOVPD(v, t.m, t.at(name))
	default:
		VMASKMOVPS(v, t.m, t.at(name))
	}
}

// inactive returns v with the inactive lanes replaced by those of other.
func (t step) inactive(v, other vec) vec {
	if !t.partial {
		return v
	}
	d := t.reg()
	if t.wide() {
		VBLENDMPS(v, other, t.k, d)
	} else {
		VBLENDVPS(t.m, v, other, d)
	}
	return d
}

// labels numbers the loops, whose names must be unique within a function.
var labels int

// loop emits the body unrolled over the slices, the first of which gives the length, and then once more for
// partial steps until the slices are done.
func (s isa) loop(unroll int, names []string, body func(t step)) {
	streams := map[string]reg.GPVirtual{}
	for _, name := range names {
		streams[name] = Load(Param(name).Base(), GP64()).(reg.GPVirtual)
	}
	n := Load(Param(names[0]).Len(), GP64()).(reg.GPVirtual)
	s.loopOver(unroll, streams, n, body)
}

func (s isa) loopOver(unroll int, streams map[string]reg.GPVirtual, n reg.GPVirtual, body func(t step)) {
	labels++
	whole, rest, part, done := fmt.Sprintf("whole%d", labels), fmt.Sprintf("rest%d", labels),
		fmt.Sprintf("part%d", labels), fmt.Sprintf("done%d", labels)
	chunk := unroll * s.width
	SUBQ(operand.I32(chunk), n)
	JL(operand.LabelRef(rest))
	Label(whole)
	for u := range unroll {
		body(step{isa: s, lane: u, streams: streams})
	}
	s.advance(streams, chunk)
	SUBQ(operand.I32(chunk), n)
	JGE(operand.LabelRef(whole))
	Label(rest)
	ADDQ(operand.I32(chunk), n)
	JZ(operand.LabelRef(done))
	Label(part)
	t := step{isa: s, streams: streams, partial: true}
	t.mask(n)
	body(t)
	s.advance(streams, s.width)
	SUBQ(operand.I32(s.width), n)
	JG(operand.LabelRef(part))
	Label(done)
}

// advance advances the streams in the order of their names, so that the generator's output is
// reproducible.
func (s isa) advance(streams map[string]reg.GPVirtual, elements int) {
	for _, name := range sortedKeys(streams) {
		ADDQ(operand.I32(s.bytes()*elements), streams[name])
	}
}

// maskTable holds eight lanes of ones and then eight of zeros.
var maskTable *operand.Mem

func maskData() operand.Mem {
	if maskTable == nil {
		m := GLOBL("partialLanes", attr.RODATA|attr.NOPTR)
		for i := range 16 {
			v := uint32(0)
			if i < 8 {
				v = 0xffffffff
			}
			DATA(4*i, operand.U32(v))
		}
		maskTable = &m
	}
	return *maskTable
}

// mask makes the lanes below n active.
func (t *step) mask(n reg.GPVirtual) {
	if t.wide() {
		t.k = K()
		ones := GP32()
		MOVL(operand.U32(uint32(1)<<t.width-1), ones)
		BZHIL(n.As32(), ones, ones)
		KMOVW(ones, t.k)
		return
	}
	active, table := GP64(), GP64()
	MOVQ(operand.I32(t.width), active)
	CMPQ(n, active)
	CMOVQLT(n, active)
	NEGQ(active)
	LEAQ(maskData(), table)
	t.m = YMM()
	VMOVUPS(operand.Mem{Base: table, Index: active, Scale: uint8(t.bytes()), Disp: 32}, t.m)
}
