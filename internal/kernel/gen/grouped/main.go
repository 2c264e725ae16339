// Command grouped generates the products of package kernel with weights of 8 and 4 bits in groups, and the
// kernels that quantize activations to 8 bits.
//
// A product has 1 to 8 rows of activations (AVX2: 1 to 4) and a panel of 16 rows of weights. The sum of a
// group is in integers, so its order does not matter; the sums of groups are added in order, so a result
// depends neither on the rows nor on the registers.
package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!noasm")
	for _, isa := range []string{"VNNI", "AVX2"} {
		for _, bits := range []int{8, 4} {
			for _, zeros := range []bool{false, true} {
				for rows := 1; rows <= maxRows(isa); rows++ {
					product(target{isa: isa, bits: bits, zeros: zeros, rows: rows})
				}
			}
		}
		largest(isa)
		quantize(isa)
	}
	Generate()
}

// distance is the prefetch distance in bytes: 4096 was the best of 1024 to 8192.
const distance = 4096

func maxRows(isa string) int {
	if isa == "VNNI" {
		return 8
	}
	return 4
}

// target is one product: its instruction set, bits, rows, and whether it has zero points.
type target struct {
	isa   string
	bits  int
	zeros bool
	rows  int
}

func (t target) wide() bool { return t.isa == "VNNI" }

func (t target) name() string {
	z := ""
	if t.zeros {
		z = "Zeros"
	}
	return fmt.Sprintf("grouped%d%sx%d%s", t.bits, z, t.rows, t.isa)
}

// kernel holds a product's registers.
type kernel struct {
	target
	vectors                                int // of weights loaded at once
	x, x3, x6, ldx, w, s, z, groups, steps reg.Register
	n                                      int
	low, ones, flip                        reg.VecPhysical
}

func product(t target) {
	TEXT(t.name(), attr.NOSPLIT, "func(groups, steps int, y *float32, ldy int, x *uint8, ldx int, "+
		"w *uint8, scales *uint16, zeros *uint8)")
	Pragma("noescape")
	k := &kernel{target: t, vectors: 1}
	if !t.wide() && t.rows <= 2 {
		k.vectors = 2
	}
	parts := 1
	if !t.wide() && k.vectors == 1 {
		parts = 2
	}
	for p := range parts {
		k.n = 0
		k.part(p)
	}
	VZEROUPPER()
	RET()
}

func (k *kernel) part(p int) {
	sums, acc := k.take(k.rows*k.vectors), k.take(k.rows*k.vectors)
	k.constants()
	k.x, k.ldx = Load(Param("x"), GP64()), Load(Param("ldx"), GP64())
	k.w, k.s = Load(Param("w"), GP64()), Load(Param("scales"), GP64())
	k.groups, k.steps = Load(Param("groups"), GP64()), GP64()
	if k.zeros {
		k.z = Load(Param("zeros"), GP64())
		offset(k.z, 8*p)
	}
	offset(k.w, 32*p)
	offset(k.s, 16*p)
	k.bases()
	for _, s := range sums {
		k.zero(s)
	}
	group, step := fmt.Sprintf("group%d", p), fmt.Sprintf("step%d", p)
	Label(group)
	for _, a := range acc {
		k.zero(a)
	}
	Load(Param("steps"), k.steps)
	Label(step)
	for i := range 4 {
		k.ahead(i)
		for v := range k.vectors {
			k.terms(i, v, acc)
		}
	}
	k.advance(4 * k.quad())
	ADDQ(U32(256), k.w)
	DECQ(k.steps)
	JNZ(LabelRef(step))
	k.finish(sums, acc)
	k.advance(8)
	ADDQ(Imm(32), k.s)
	if k.zeros {
		ADDQ(Imm(16), k.z)
	}
	DECQ(k.groups)
	JNZ(LabelRef(group))
	k.write(sums, p)
}

// ahead prefetches the next weights, also across a page boundary, where the hardware prefetcher stops.
func (k *kernel) ahead(i int) {
	PREFETCHT0(Mem{Base: k.w, Disp: 64*i + distance})
}

// quad returns the bytes of activations that 64 bytes of weights are multiplied by.
func (k *kernel) quad() int { return 32 / k.bits }

func offset(r reg.Register, n int) {
	if n > 0 {
		ADDQ(Imm(uint64(n)), r)
	}
}

func (k *kernel) bases() {
	if k.rows > 3 {
		k.x3 = GP64()
		LEAQ(Mem{Base: k.ldx, Index: k.ldx, Scale: 2}, k.x3)
		ADDQ(k.x, k.x3)
	}
	if k.rows > 6 {
		k.x6 = GP64()
		LEAQ(Mem{Base: k.ldx, Index: k.ldx, Scale: 2}, k.x6)
		ADDQ(k.x3, k.x6)
	}
}

func (k *kernel) advance(n int) {
	for _, x := range []reg.Register{k.x, k.x3, k.x6}[:1+min(2, (k.rows-1)/3)] {
		ADDQ(Imm(uint64(n)), x)
	}
}

// at returns the address of activations of row i.
func (k *kernel) at(i, disp int) Mem {
	m := Mem{Base: []reg.Register{k.x, k.x3, k.x6}[i/3], Disp: disp}
	if i%3 > 0 {
		m.Index, m.Scale = k.ldx, uint8(i%3)
	}
	return m
}

// constants loads the constant vectors: the mask of nibbles, and what AVX2 needs to add words.
func (k *kernel) constants() {
	if k.bits == 4 {
		k.low = k.take(1)[0]
		k.fill(k.low, 0x0f0f0f0f)
	}
	if k.wide() {
		return
	}
	k.ones = k.take(1)[0]
	k.fill(k.ones, 0x00010001)
	if k.bits == 8 {
		k.flip = k.take(1)[0]
		k.fill(k.flip, 0x80808080)
	}
}

func (k *kernel) fill(v reg.VecPhysical, x uint32) {
	r := GP32()
	MOVL(U32(x), r)
	if k.wide() {
		VPBROADCASTD(r, v)
		return
	}
	VMOVD(r, v.AsX())
	VPBROADCASTD(v.AsX(), v)
}

// terms multiplies and adds 64 bytes of weights (AVX2: 32), the i-th of a step.
func (k *kernel) terms(i, v int, acc []reg.VecPhysical) {
	m := Mem{Base: k.w, Disp: 64*i + 32*v}
	switch {
	case k.wide() && k.bits == 8:
		w := k.temp(0)
		VMOVDQU8(m, w)
		for r := range k.rows {
			VPDPBUSD_BCST(k.at(r, 4*i), w, acc[r])
		}
	case k.wide():
		lo, hi := k.temp(0), k.temp(1)
		VMOVDQU8(m, hi)
		VPANDD(k.low, hi, lo)
		VPSRLW(Imm(4), hi, hi)
		VPANDD(k.low, hi, hi)
		for r := range k.rows {
			VPDPBUSD_BCST(k.at(r, 8*i), lo, acc[r])
		}
		for r := range k.rows {
			VPDPBUSD_BCST(k.at(r, 8*i+4), hi, acc[r])
		}
	case k.bits == 8:
		k.terms8(m, i, v, acc)
	default:
		k.terms4(m, i, v, acc)
	}
}

// terms8 multiplies without VNNI: absolute values of the weights by activations with the sign of the product,
// since sums of pairs would overflow words otherwise.
func (k *kernel) terms8(m Mem, i, v int, acc []reg.VecPhysical) {
	w, a, t := k.temp(0), k.temp(1), k.temp(2)
	VMOVDQU(m, w)
	VPXOR(k.flip, w, w)
	VPABSB(w, a)
	for r := range k.rows {
		VPBROADCASTD(k.at(r, 4*i), t)
		VPSIGNB(w, t, t)
		VPMADDUBSW(t, a, t)
		VPMADDWD(k.ones, t, t)
		VPADDD(t, acc[r*k.vectors+v], acc[r*k.vectors+v])
	}
}

func (k *kernel) terms4(m Mem, i, v int, acc []reg.VecPhysical) {
	lo, hi, t, u := k.temp(0), k.temp(1), k.temp(2), k.temp(3)
	VMOVDQU(m, hi)
	VPAND(k.low, hi, lo)
	VPSRLW(Imm(4), hi, hi)
	VPAND(k.low, hi, hi)
	for r := range k.rows {
		VPBROADCASTD(k.at(r, 8*i), t)
		VPMADDUBSW(t, lo, t)
		VPBROADCASTD(k.at(r, 8*i+4), u)
		VPMADDUBSW(u, hi, u)
		VPADDW(u, t, t)
		VPMADDWD(k.ones, t, t)
		VPADDD(t, acc[r*k.vectors+v], acc[r*k.vectors+v])
	}
}

// finish adds a group's sums, minus the zero points' share, times both scales.
func (k *kernel) finish(sums, acc []reg.VecPhysical) {
	for v := range k.vectors {
		scale := k.temp(0)
		VCVTPH2PS(Mem{Base: k.s, Disp: 16 * v}, scale)
		if k.zeros {
			VPMOVZXBD(Mem{Base: k.z, Disp: 8 * v}, k.temp(1))
			if !k.wide() && k.bits == 8 {
				k.lessHalf(k.temp(1))
			}
		}
		for r := range k.rows {
			a := acc[r*k.vectors+v]
			k.lessZero(r, a)
			VCVTDQ2PS(a, a)
			k.times(k.at(r, 0), a)
			VFMADD231PS(scale, a, sums[r*k.vectors+v])
		}
	}
}

// lessHalf subtracts 128, the offset of AVX2's 8-bit weights.
func (k *kernel) lessHalf(z reg.VecPhysical) {
	t := k.temp(2)
	VPCMPEQD(t, t, t)
	VPSLLD(Imm(7), t, t) // -128
	VPADDD(t, z, z)
}

// lessZero subtracts the zero points' share: activations store their negative sum, multiplied by the zero
// point if that is the same for all.
func (k *kernel) lessZero(r int, a reg.VecPhysical) {
	m := k.at(r, 4)
	switch {
	case k.zeros && k.wide():
		VPMULLD_BCST(m, k.temp(1), k.temp(2))
		VPADDD(k.temp(2), a, a)
	case k.zeros:
		VPBROADCASTD(m, k.temp(2))
		VPMULLD(k.temp(1), k.temp(2), k.temp(2))
		VPADDD(k.temp(2), a, a)
	case k.wide():
		VPADDD_BCST(m, a, a)
	case k.bits == 4:
		VPBROADCASTD(m, k.temp(2))
		VPADDD(k.temp(2), a, a)
	}
}

func (k *kernel) times(m Mem, a reg.VecPhysical) {
	if k.wide() {
		VMULPS_BCST(m, a, a)
		return
	}
	VBROADCASTSS(m, k.temp(2))
	VMULPS(k.temp(2), a, a)
}

func (k *kernel) write(sums []reg.VecPhysical, p int) {
	y, ldy := Load(Param("y"), GP64()), Load(Param("ldy"), GP64())
	SHLQ(Imm(2), ldy)
	for r := range k.rows {
		for v := range k.vectors {
			VMOVUPS(sums[r*k.vectors+v], Mem{Base: y, Disp: 32 * (v + p)})
		}
		if r+1 < k.rows {
			ADDQ(ldy, y)
		}
	}
}

// take allocates n registers; temp returns one of those after them.
func (k *kernel) take(n int) []reg.VecPhysical {
	var list []reg.VecPhysical
	for range n {
		list = append(list, vec(k.wide(), k.n))
		k.n++
	}
	return list
}

func (k *kernel) temp(i int) reg.VecPhysical { return vec(k.wide(), k.n+i) }

func (k *kernel) zero(v reg.VecPhysical) {
	if k.wide() {
		VPXORQ(v, v, v)
		return
	}
	VPXOR(v, v, v)
}

func vec(wide bool, i int) reg.VecPhysical {
	if wide {
		return []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
			reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23}[i]
	}
	return []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}[i]
}
