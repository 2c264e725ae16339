package ptx

import (
	"math"
	"strings"

	"github.com/galley-ml/galley/array"
)

// maker returns the decoder of an instruction's operands and effect; nil if it is unknown.
func maker(op string) func(d *decoder) {
	if f := integers[op]; f != nil {
		return func(d *decoder) { d.integers(f) }
	}
	if f := floats[op]; f.f != nil {
		return func(d *decoder) { d.floats(f.operands, f.f) }
	}
	if strings.HasPrefix(op, mapField) {
		return makeReplace
	}
	return makers[op]
}

// makers holds the decoders of instructions without a common pattern.
var makers = map[string]func(d *decoder){
	"add.u64": func(d *decoder) {
		d.wide("u64", "u64", func(a, b uint64) uint64 { return a + b })
	},
	"or.b64": func(d *decoder) {
		d.wide("b64", "b64", func(a, b uint64) uint64 { return a | b })
	},
	"mul.wide.u32": func(d *decoder) {
		d.wide("u64", "u32", func(a, b uint64) uint64 { return a * b })
	},
	"mad.lo.u32": makeMulAdd, "mad.wide.u32": makeWideMulAdd,
	"mov.u32": makeMoveU32, "mov.b32": makeMoveB32, "mov.u64": makeMove, "mov.b16": makeMove,
	"cvt.u64.u32": makeWiden, "cvta.to.global.u64": makeMove,
	"cvt.rn.bf16x2.f32": makeRound,
	"setp.eq.u32":       makeCompare, "setp.ne.u32": makeCompare, "setp.lt.u32": makeCompare,
	"setp.ge.u32": makeCompare, "setp.ne.and.u32": makeCompare,
	"bra": makeBranch, "ret": func(d *decoder) { d.in.run = func(*thread) outcome { return ended } },
	"setmaxnreg.inc.sync.aligned.u32": makeMaxRegs, "setmaxnreg.dec.sync.aligned.u32": makeMaxRegs,
	"createpolicy.fractional.L2::evict_first.b64": makePolicy,
	"createpolicy.fractional.L2::evict_last.b64":  makePolicy,

	"ld.param.u64": makeParam, "ld.global.nc.v2.f32": makeLoadGlobal, "ld.shared.v4.b32": makeLoadShared,
	"st.shared.b32":    makeStoreShared,
	"st.global.v4.b32": makeStoreGlobal, "st.global.L2::cache_hint.v4.b32": makeStoreGlobal,
	"mapa.shared::cluster.u32": makeMapAddress,

	"cp.async.cg.shared.global": makeCopyAsync, "cp.async.ca.shared.global": makeCopyAsync,
	"cp.async.commit_group": makeCommitCopies, "ld.shared.b16": makeLoadSharedHalf,
	"cp.async.wait_group": makeWaitCopies, "ld.global.nc.v4.b32": makeLoadFour,
	"ld.global.nc.b16": makeLoadOne, "ld.global.b32": makeLoadOne, "ld.shared.b32": makeLoadSharedOne,
	"st.global.b16": makeStoreOne, "cvt.rn.bf16.f32": makeRoundOne, "cvt.f32.u32": makeFloat,
	"prmt.b32": makePermute, "lop3.b32": makeLogic, "fma.rn.bf16x2": makePairMulAdd,
	"shfl.sync.bfly.b32": makeButterfly,
	"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": makeWarpMultiply,

	"mbarrier.init.shared::cta.b64": makeInit, "mbarrier.arrive.expect_tx.shared::cta.b64": makeExpect,
	"mbarrier.arrive.shared::cluster.b64":      makeArrive,
	"mbarrier.try_wait.parity.shared::cta.b64": makeTryWait,
	"fence.mbarrier_init.release.cluster":      makeInitFence,
	"bar.sync":                                 makeNamedBarrier, "bar.warp.sync": makeWarpSync,
	"barrier.cluster.arrive.release": makePairArrive, "barrier.cluster.wait.acquire": makePairWait,

	putMap: makeCopyMap, seeMap: makeSeeMap, copyBox: makeCopyBox, copyBox +
		".L2::cache_hint": makeCopyBox, copyBox + ".multicast::cluster.L2::cache_hint": makeCopyBox,

	"shfl.sync.idx.b32": makeShuffle, "stmatrix.sync.aligned.m8n8.x4.shared.b16": makeStoreMatrix,
	"ldmatrix.sync.aligned.m8n8.x4.shared.b16": makeLoadMatrix,
	"wgmma.fence.sync.aligned":                 makeFence, "wgmma.commit_group.sync.aligned": makeCommit,
	"wgmma.wait_group.sync.aligned":                         makeWait,
	"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16": makeMultiply,
}

// integers are the instructions on two 32-bit integers. Shifts by 32 or more give 0.
var integers = map[string]func(a, b uint32) uint32{
	"add.u32":    func(a, b uint32) uint32 { return a + b },
	"sub.u32":    func(a, b uint32) uint32 { return a - b },
	"mul.lo.u32": func(a, b uint32) uint32 { return a * b },
	"div.u32":    func(a, b uint32) uint32 { return a / b },
	"rem.u32":    func(a, b uint32) uint32 { return a % b },
	"and.b32":    func(a, b uint32) uint32 { return a & b },
	"xor.b32":    func(a, b uint32) uint32 { return a ^ b },
	"shl.b32":    func(a, b uint32) uint32 { return a << b },
	"shr.u32":    func(a, b uint32) uint32 { return a >> b },
}

func (d *decoder) integers(f func(a, b uint32) uint32) {
	typ := d.op[strings.LastIndexByte(d.op, '.')+1:]
	out, a, b := d.out(typ), d.take(typ), d.take(typ)
	divides := strings.HasPrefix(d.op, "div") || strings.HasPrefix(d.op, "rem")
	d.then(func(t *thread) {
		x, y := t.u32(a), t.u32(b)
		if divides && y == 0 {
			t.fault("%d by 0", x)
			return
		}
		t.set(out, uint64(f(x, y)))
	})
}

// wide decodes an instruction with a 64-bit result.
func (d *decoder) wide(outType, inType string, f func(a, b uint64) uint64) {
	out, a, b := d.out(outType), d.take(inType), d.take(inType)
	d.then(func(t *thread) { t.set(out, f(t.get(a), t.get(b))) })
}

// float is an instruction on floats and its number of operands.
type float struct {
	operands int
	f        func(a, b, c float32) float32
}

// floats are the instructions on floats. Those that are approximate on a device are computed as exactly as
// possible.
var floats = map[string]float{
	"add.f32": {2, func(a, b, _ float32) float32 { return a + b }},
	"sub.f32": {2, func(a, b, _ float32) float32 { return a - b }},
	"mul.f32": {2, func(a, b, _ float32) float32 { return a * b }},
	"fma.rn.f32": {3, func(a, b, c float32) float32 {
		return float32(math.FMA(float64(a), float64(b),
			float64(c)))
	}},
	"max.f32": {2, func(a, b, _ float32) float32 { return max(a, b) }},
	"neg.f32": {1, func(a, _, _ float32) float32 { return -a }},
	"ex2.approx.ftz.f32": {1, func(a, _,
		_ float32) float32 {
		return flushed(float32(math.Exp2(float64(flushed(a)))))
	}},
	"rcp.approx.ftz.f32": {1, func(a, _, _ float32) float32 { return flushed(1 / flushed(a)) }},
}

// flushed flushes a subnormal float to 0.
func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return 0
	}
	return x
}

func (d *decoder) floats(operands int, f func(a, b, c float32) float32) {
	out := d.out("f32")
	var in [3]source
	for i := range in {
		in[i].reg = -1
		if i < operands {
			in[i] = d.take("f32")
		}
	}
	d.then(func(t *thread) { t.setF32(out, f(t.f32(in[0]), t.f32(in[1]), t.f32(in[2]))) })
}

func makeMulAdd(d *decoder) {
	out, in := d.out("u32"), d.takes("u32", 3)
	d.then(func(t *thread) { t.set(out, uint64(t.u32(in[0])*t.u32(in[1])+t.u32(in[2]))) })
}

func makeWideMulAdd(d *decoder) {
	out, in, more := d.out("u64"), d.takes("u32", 2), d.take("u64")
	d.then(func(t *thread) { t.set(out, t.get(in[0])*t.get(in[1])+t.get(more)) })
}

// makeMove decodes a copy of a register or an immediate, or the conversion of an address to global, a no-op
// here.
func makeMove(d *decoder) {
	typ := d.op[strings.LastIndexByte(d.op, '.')+1:]
	out, in := d.out(typ), d.take(typ)
	d.then(func(t *thread) { t.set(out, t.get(in)) })
}

// makeMoveU32 decodes a copy that may be of a special register, such as a thread's index.
func makeMoveU32(d *decoder) {
	if len(d.args) != 2 {
		d.fail("%s: got %d operands: want 2", d.op, len(d.args))
	}
	about := map[string]func(t *thread) int{
		"%tid.x":           func(t *thread) int { return t.index },
		"%ctaid.x":         func(t *thread) int { return t.unit.pair.first + t.unit.rank },
		"%cluster_ctarank": func(t *thread) int { return t.unit.rank },
		"memory":           func(t *thread) int { return t.unit.rank<<rankShift + keptBytes },
	}[d.args[1]]
	if about == nil {
		makeMove(d)
		return
	}
	out := d.out("u32")
	d.next("a source")
	d.then(func(t *thread) { t.set(out, uint64(about(t))) })
}

func makeWiden(d *decoder) {
	out, in := d.out("u64"), d.take("u32")
	d.then(func(t *thread) { t.set(out, t.get(in)) })
}

// makeRound decodes the rounding of two floats to a pair, the upper one first.
func makeRound(d *decoder) {
	out, high, low := d.out("b32"), d.take("f32"), d.take("f32")
	d.then(func(t *thread) {
		t.set(out, uint64(array.ToBFloat16(t.f32(high)))<<16|uint64(array.ToBFloat16(t.f32(low))))
	})
}

func makeCompare(d *decoder) {
	words := strings.Split(d.op, ".")
	out, a, b, also := d.out("pred"), d.take("u32"), d.take("u32"), source{-1, 1}
	if words[2] == "and" {
		also = d.take("pred")
	}
	compare := map[string]func(a, b uint64) bool{
		"eq": func(a, b uint64) bool { return a == b },
		"ne": func(a, b uint64) bool { return a != b },
		"lt": func(a, b uint64) bool { return a < b },
		"ge": func(a, b uint64) bool { return a >= b },
	}[words[1]]
	d.then(func(t *thread) { t.setIf(out, compare(t.get(a), t.get(b)) && t.get(also) != 0) })
}

func makeBranch(d *decoder) {
	label := d.next("a label")
	to, ok := d.labels[label]
	if !ok {
		d.fail("%s: no label %s", d.op, label)
	}
	d.then(func(t *thread) { t.pc = to })
}

// makeMaxRegs decodes setmaxnreg, the number of registers of a thread.
func makeMaxRegs(d *decoder) {
	if n := d.number("u32"); n < 24 || n > 256 || n%8 != 0 {
		d.fail("%s: got %d: want a multiple of 8 from 24 to 256", d.op, n)
	}
	d.together(warpThreads, func(*crew) {})
}

// cachePolicy is the value of a cache policy in a register.
const cachePolicy = 0x0123456789abcdef

func makePolicy(d *decoder) {
	out, part := d.out("b64"), math.Float32frombits(uint32(d.number("f32")))
	if !(part > 0 && part <= 1) {
		d.fail("%s: got %v: want a part above 0 and up to 1", d.op, part)
	}
	d.then(func(t *thread) { t.set(out, cachePolicy) })
}

// policy decodes the cache policy, if the instruction has one.
func (d *decoder) policy() func(t *thread) {
	if !strings.Contains(d.op, ".L2::cache_hint") {
		return func(*thread) {}
	}
	policy := d.take("b64")
	return func(t *thread) {
		if got := t.get(policy); got != cachePolicy {
			t.fault("got %#x: want what createpolicy makes", got)
		}
	}
}
