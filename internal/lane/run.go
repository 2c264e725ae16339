package lane

import "math"

// Run computes a list on one lane: in holds the bits of the inputs, and the answer is those of result. It is
// what the instructions mean, in plain Go.
func Run(code []Instr, in []uint32, result Arg) uint32 { return run(code, in, result, step) }

// RunDouble is like Run for lanes of 64 bits.
func RunDouble(code []Instr, in []uint64, result Arg) uint64 {
	return run(code, in, result, stepDouble)
}

func run[W uint32 | uint64](code []Instr, in []W, result Arg, step func(Op, uint8, [4]W) W) W {
	regs := append([]W{}, in...)
	value := func(a Arg) W {
		if a.IsConst() {
			return W(a.Bits)
		}
		return regs[a.Reg]
	}
	for _, i := range code {
		var v [4]W
		for k, a := range i.Args() {
			v[k] = value(a)
		}
		for len(regs) <= i.Dst {
			regs = append(regs, 0)
		}
		regs[i.Dst] = step(i.Op, i.Imm, v)
	}
	return value(result)
}

func step(op Op, imm uint8, v [4]uint32) uint32 {
	switch op {
	case Load:
		return v[0]
	case And:
		return v[0] & v[1]
	case Or:
		return v[0] | v[1]
	case OrAnd:
		return v[0] | v[1]&v[2]
	case Xor:
		return v[0] ^ v[1]
	case AddInt:
		return v[0] + v[1]
	case SubInt:
		return v[0] - v[1]
	case ShiftL:
		return v[0] << imm
	case ShiftR:
		return uint32(int32(v[0]) >> imm)
	case FromInt:
		return math.Float32bits(float32(int32(v[0])))
	case Compare:
		return ones[uint32](compare(imm, float(v[0]), float(v[1])))
	case Choose:
		return either(compare(imm, float(v[0]), float(v[1])), v[2], v[3])
	case Select:
		return either(v[0]>>31 == 1, v[1], v[2])
	}
	return math.Float32bits(number(op, imm, v))
}

func float(b uint32) float32 { return math.Float32frombits(b) }

func ones[W uint32 | uint64](b bool) W { return either(b, ^W(0), 0) }

func either[W uint32 | uint64](b bool, yes, no W) W {
	if b {
		return yes
	}
	return no
}

// number returns the instructions whose result is a float.
func number(op Op, imm uint8, v [4]uint32) float32 {
	a, b, c := float(v[0]), float(v[1]), float(v[2])
	switch op {
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	case Div:
		return a / b
	case Min:
		if a < b {
			return a
		}
		return b
	case Max:
		if a > b {
			return a
		}
		return b
	case ToHalf:
		return roundHalf(a)
	case Sqrt:
		return float32(math.Sqrt(float64(a)))
	case Round:
		return float32(rounding[imm](float64(a)))
	case MulAdd:
		return fma(a, b, c)
	case AddMul:
		return fma(b, c, a)
	case DedMul:
		return fma(-b, c, a)
	case MulDed:
		return fma(b, c, -a)
	}
	if !compare(imm, c, float(v[3])) { // Scale
		return 0
	}
	return float32(math.Ldexp(float64(a), int(math.Floor(float64(b)))))
}

// roundHalf returns x with 11 bits, in units of at least 2^-24; beyond the largest it is infinite.
func roundHalf(x float32) float32 {
	if x == 0 || x != x || math.IsInf(float64(x), 0) {
		return x
	}
	unit := math.Ldexp(1, max(math.Ilogb(float64(x)), -14)-10)
	y := math.RoundToEven(float64(x)/unit) * unit
	if math.Abs(y) > 65504 {
		return float32(math.Copysign(math.Inf(1), y))
	}
	return float32(math.Copysign(y, float64(x)))
}

var rounding = [...]func(float64) float64{math.RoundToEven, math.Floor, math.Ceil}

func compare[T float32 | float64](predicate uint8, a, b T) bool {
	switch predicate {
	case Equal:
		return a == b
	case Unordered:
		return a != a || b != b
	case NotEqual:
		return a != b
	case NotLess:
		return !(a < b)
	case Less:
		return a < b
	case LessEqual:
		return a <= b
	}
	panic("lane: no such comparison")
}

// fma returns a·b + c rounded once. The product is exact in float64; of the sum, what rounding lost decides
// how a tie is broken, so its last bit is made odd where anything was lost.
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return float32(s)
	}
	t := s - p
	lost := (p - (s - t)) + (q - t)
	if bits := math.Float64bits(s); lost != 0 && bits&1 == 0 {
		if (lost > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
