package lane

import "math"

// Op is one instruction.
type Op uint8

// The instructions. A, B, C and D are their operands; those marked * may be constants.
const (
	Load      Op = iota // A*
	Add                 // A + B*
	Sub                 // A - B*
	Mul                 // A · B*
	Div                 // A / B*
	Min                 // the smaller; B* where either is NaN
	Max                 // the larger; B* where either is NaN
	And                 // bits of A and B*
	Or                  // bits of A or B*
	Xor                 // bits of A that differ from B*
	AddInt              // A + B*, as integers
	SubInt              // A - B*, as integers
	Sqrt                // square root of A
	ShiftL              // A shifted to the left by Imm bits
	ShiftR              // A shifted to the right by Imm bits, the sign repeated; 32-bit lanes only
	ShiftDown           // A shifted to the right by Imm bits, zeros behind it; 64-bit lanes only
	FromInt             // the integer A as a float; 32-bit lanes only
	Round               // A as a whole number: 0 nearest even, 1 down, 2 up
	MulAdd              // A·B + C*, rounded once
	AddMul              // A + B·C*, rounded once
	DedMul              // A - B·C*, rounded once
	MulDed              // B·C - A, rounded once
	OrAnd               // bits of A, or those that both B and C* have; vectors of 512 bits only
	Compare             // all ones where A compares to B* as Imm says, else zero
	Choose              // C* where A compares to B* as Imm says, else D
	Select              // B* where the bits of A are all ones, C where they are zero
	ToHalf              // A as the nearest 16-bit float with 5 bits of exponent, as a 32-bit one; 16 lanes only
	Scale               // A·2^B where C compares to D* as Imm says, else zero; 16 lanes only
)

// The comparisons that Imm names, as the processor numbers them.
const (
	Equal     = 0x00
	Unordered = 0x03
	NotEqual  = 0x04 // or unordered
	NotLess   = 0x15 // or unordered
	Less      = 0x11
	LessEqual = 0x12
)

// Arg is an operand: a register, or the same bits in every lane.
type Arg struct {
	// Reg is a virtual register; it is negative for a constant.
	Reg  int
	Bits uint64
}

// IsConst reports whether the operand is a constant.
func (a Arg) IsConst() bool { return a.Reg < 0 }

// Instr is one instruction with a new register as its result.
type Instr struct {
	Op  Op
	Dst int
	Arg [4]Arg
	Imm uint8
}

// counts is how many operands instructions have.
var counts = [...]int{Load: 1, Add: 2, Sub: 2, Mul: 2, Div: 2, Min: 2, Max: 2, And: 2, Or: 2, Xor: 2,
	AddInt: 2, SubInt: 2, Sqrt: 1, ShiftL: 1, ShiftR: 1, ShiftDown: 1, FromInt: 1, Round: 1, MulAdd: 3,
	AddMul: 3, DedMul: 3, MulDed: 3, OrAnd: 3, Compare: 2, Choose: 4, Select: 3, ToHalf: 1, Scale: 4}

// Args returns the instruction's operands.
func (i *Instr) Args() []Arg { return i.Arg[:counts[i.Op]] }

// Const returns a float in every lane.
func Const(v float64) Arg { return Bits(math.Float32bits(float32(v))) }

// Bits returns a bit pattern in every lane.
func Bits(b uint32) Arg { return Arg{Reg: -1, Bits: uint64(b)} }

// Bits64 returns a bit pattern in every lane of 64 bits.
func Bits64(b uint64) Arg { return Arg{Reg: -1, Bits: b} }

// Builder writes a list of instructions. Registers below Inputs hold what the formula is given.
type Builder struct {
	// Wide is whether vectors have 512 bits: 16 lanes, or 8 of 64 bits.
	Wide bool
	// double is whether lanes have 64 bits.
	double bool
	// Missing is whether a formula was asked for that lanes of this size do not have.
	Missing bool
	Code    []Instr
	regs    int
}

// single says that a formula is for lanes of 32 bits alone.
func (b *Builder) single() { b.Missing = b.Missing || b.double }

// Number returns a float in every lane, of the lanes' size.
func (b *Builder) Number(v float64) Arg {
	if b.double {
		return Bits64(math.Float64bits(v))
	}
	return Const(v)
}

// Not returns the other truth.
func (b *Builder) Not(x Arg) Arg {
	if b.double {
		return b.Xor(x, Bits64(math.MaxUint64))
	}
	return b.Xor(x, Bits(math.MaxUint32))
}

// sign returns the bit of the sign in every lane.
func (b *Builder) sign() Arg { return b.Number(math.Copysign(0, -1)) }

// NewBuilder starts a formula of so many inputs.
func NewBuilder(wide bool, inputs int) *Builder { return &Builder{Wide: wide, regs: inputs} }

// In returns an input.
func (b *Builder) In(i int) Arg { return Arg{Reg: i} }

// Regs returns how many registers have been named.
func (b *Builder) Regs() int { return b.regs }

func (b *Builder) emit(op Op, imm uint8, args ...Arg) Arg {
	i := Instr{Op: op, Dst: b.regs, Imm: imm}
	copy(i.Arg[:], args)
	b.Code = append(b.Code, i)
	b.regs++
	return Arg{Reg: i.Dst}
}

// reg returns an operand as a register.
func (b *Builder) reg(a Arg) Arg {
	if a.IsConst() {
		return b.emit(Load, 0, a)
	}
	return a
}

func (b *Builder) two(op Op, x, y Arg) Arg { return b.emit(op, 0, b.reg(x), y) }

// Add returns x + y.
func (b *Builder) Add(x, y Arg) Arg { return b.two(Add, x, y) }

// Sub returns x - y.
func (b *Builder) Sub(x, y Arg) Arg { return b.two(Sub, x, y) }

// Mul returns x · y.
func (b *Builder) Mul(x, y Arg) Arg { return b.two(Mul, x, y) }

// Div returns x / y.
func (b *Builder) Div(x, y Arg) Arg { return b.two(Div, x, y) }

// Sqrt returns the square root.
func (b *Builder) Sqrt(x Arg) Arg { return b.emit(Sqrt, 0, b.reg(x)) }

// Abs returns x without its sign.
func (b *Builder) Abs(x Arg) Arg {
	if b.double {
		return b.two(And, x, Bits64(math.MaxInt64))
	}
	return b.two(And, x, Bits(math.MaxInt32))
}

// Neg returns x with the other sign.
func (b *Builder) Neg(x Arg) Arg { return b.two(Xor, x, b.sign()) }

// Round returns x as a whole number: 0 nearest even, 1 down, 2 up.
func (b *Builder) Round(x Arg, mode uint8) Arg { return b.emit(Round, mode, b.reg(x)) }

// Compare returns all ones where x compares to y by the predicate.
func (b *Builder) Compare(predicate uint8, x, y Arg) Arg {
	return b.emit(Compare, predicate, b.reg(x), y)
}

// Select returns yes where a truth, all ones, holds, else no.
func (b *Builder) Select(truth, yes, no Arg) Arg {
	return b.emit(Select, 0, b.reg(truth), yes, b.reg(no))
}

// And returns the bits that both have.
func (b *Builder) And(x, y Arg) Arg { return b.two(And, x, y) }

// Or returns the bits that either has.
func (b *Builder) Or(x, y Arg) Arg { return b.two(Or, x, y) }

// signOf returns x, whose sign is clear, with the sign of y.
func (b *Builder) signOf(x, y Arg) Arg {
	if b.Wide { // one instruction
		return b.emit(OrAnd, 0, b.reg(x), b.reg(y), b.sign())
	}
	return b.Or(x, b.And(y, b.sign()))
}

// Xor returns the bits in which they differ.
func (b *Builder) Xor(x, y Arg) Arg { return b.two(Xor, x, y) }

// Max returns the larger of x and y, NaN where either is.
func (b *Builder) Max(x, y Arg) Arg { return b.nanOf(Max, And, x, y) }

// Min returns the smaller of x and y, NaN where either is.
func (b *Builder) Min(x, y Arg) Arg { return b.nanOf(Min, Or, x, y) }

// nanOf keeps a NaN of x: the instructions give y where either is NaN, so only x needs a look. Of two zeros
// they give y; lanes of 64 bits have the one that bits of both say, as Go has it.
func (b *Builder) nanOf(op, bits Op, x, y Arg) Arg {
	x = b.reg(x)
	z := b.two(op, x, y)
	if b.double {
		z = b.choose(Equal, x, y, b.two(bits, x, y), z)
	}
	return b.emit(Choose, Unordered, x, x, x, z)
}

// New names a register that no instruction of the list sets: what a reader loads into it is its own affair.
func (b *Builder) New() Arg {
	b.regs++
	return Arg{Reg: b.regs - 1}
}
