package lane

import "math"

// stepDouble is like step for lanes of 64 bits.
func stepDouble(op Op, imm uint8, v [4]uint64) uint64 {
	a, b, c := math.Float64frombits(v[0]), math.Float64frombits(v[1]), math.Float64frombits(v[2])
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
	case ShiftDown:
		return v[0] >> imm
	case Compare:
		return ones[uint64](compare(imm, a, b))
	case Choose:
		return either(compare(imm, a, b), v[2], v[3])
	case Select:
		return either(v[0]>>63 == 1, v[1], v[2])
	}
	return math.Float64bits(double(op, imm, a, b, c))
}

// double computes the instructions whose result is a float of 64 bits.
func double(op Op, imm uint8, a, b, c float64) float64 {
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
	case Sqrt:
		return math.Sqrt(a)
	case Round:
		return rounding[imm](a)
	case MulAdd:
		return math.FMA(a, b, c)
	case AddMul:
		return math.FMA(b, c, a)
	case DedMul:
		return math.FMA(-b, c, a)
	case MulDed:
		return math.FMA(b, c, -a)
	}
	panic("lane: no such instruction on lanes of 64 bits")
}
