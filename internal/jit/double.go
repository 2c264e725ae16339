package jit

import "math"

var (
	vpsraq     = ins{"vpsraq", 0x72, 1, 1, evexW}
	shiftImm64 = ins{"", 0x73, 1, 1, evexW} // with 6 vpsllq, with 2 vpsrlq
)

// doubles maps instructions on 32-bit lanes to those on 64-bit lanes.
var doubles = map[ins]ins{
	vaddps:       {"vaddpd", 0x58, 1, 1, evexW},
	vsubps:       {"vsubpd", 0x5C, 1, 1, evexW},
	vmulps:       {"vmulpd", 0x59, 1, 1, evexW},
	vdivps:       {"vdivpd", 0x5E, 1, 1, evexW},
	vminps:       {"vminpd", 0x5D, 1, 1, evexW},
	vmaxps:       {"vmaxpd", 0x5F, 1, 1, evexW},
	vandps:       {"vandpd", 0x54, 1, 1, evexW},
	vorps:        {"vorpd", 0x56, 1, 1, evexW},
	vxorps:       {"vxorpd", 0x57, 1, 1, evexW},
	vsqrtps:      {"vsqrtpd", 0x51, 1, 1, evexW},
	vpaddd:       {"vpaddq", 0xD4, 1, 1, evexW},
	vpsubd:       {"vpsubq", 0xFB, 1, 1, evexW},
	vfmadd213ps:  {"vfmadd213pd", 0xA8, 2, 1, evexW | vexW},
	vfmadd231ps:  {"vfmadd231pd", 0xB8, 2, 1, evexW | vexW},
	vfnmadd231ps: {"vfnmadd231pd", 0xBC, 2, 1, evexW | vexW},
	vfmsub231ps:  {"vfmsub231pd", 0xBA, 2, 1, evexW | vexW},
	vpternlogd:   {"vpternlogq", 0x25, 3, 1, evexW},
	vbroadcastss: {"vbroadcastsd", 0x19, 2, 1, evexW},
	vmovups:      {"vmovupd", 0x10, 1, 1, evexW},
	vmovupsTo:    {"vmovupd", 0x11, 1, 1, evexW},
	vmovntps:     {"vmovntpd", 0x2B, 1, 1, evexW},
	vmovss:       {"vmovsd", 0x10, 1, 3, evexW},
	vmovssTo:     {"vmovsd", 0x11, 1, 3, evexW},
	vaddss:       {"vaddsd", 0x58, 1, 3, evexW},
	vmaskmovps:   {"vmaskmovpd", 0x2D, 2, 1, 0},
	vmaskmovpsTo: {"vmaskmovpd", 0x2F, 2, 1, 0},
	vcmpps:       {"vcmppd", 0xC2, 1, 1, evexW},
	vblendvps:    {"vblendvpd", 0x4B, 3, 1, 0},
	vblendmps:    {"vblendmpd", 0x65, 2, 1, evexW},
	vroundps:     {"vroundpd", 0x09, 3, 1, evexW},
	vrndscaleps:  {"vrndscalepd", 0x09, 3, 1, evexW},
	vpermilps:    {"vpermilpd", 0x05, 3, 1, evexW},
	vpmovm2d:     {"vpmovm2q", 0x38, 2, 2, evexW},
	vpmovd2m:     {"vpmovq2m", 0x39, 2, 2, evexW},
	vpmovzxbd:    {"vpmovzxbq", 0x32, 2, 1, 0},
	vpmovdb:      {"vpmovqb", 0x32, 2, 2, 0},
}

// sized returns the instruction for lanes of the program's size.
func (c *compiler) sized(i ins) ins {
	if d, ok := doubles[i]; ok && c.p.Double {
		return d
	}
	return i
}

// rr, rm and shift are like asm's, for lanes of the program's size.

func (c *compiler) rr(i ins, f form, reg, vvvv, rm int) { c.asm.rr(c.sized(i), f, reg, vvvv, rm) }

func (c *compiler) rm(i ins, f form, reg, vvvv int, m mem) { c.asm.rm(c.sized(i), f, reg, vvvv, m) }

func (c *compiler) shift(f form, kind, dst, src int) {
	switch {
	case !c.p.Double:
		c.asm.shift(f, kind, dst, src)
	case kind == 4:
		c.asm.rr(vpsraq, f, kind, dst, src)
	default:
		c.asm.rr(shiftImm64, f, kind, dst, src)
	}
}

// size returns the bytes of a lane.
func (p *Program) size() int {
	if p.Double {
		return 8
	}
	return 4
}

// float returns the bits of a number in a lane.
func (p *Program) float(v float64) uint64 {
	if p.Double {
		return math.Float64bits(v)
	}
	return uint64(math.Float32bits(float32(v)))
}
