package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// constant is an operand with the same value in every lane: memory that AVX2
// reads whole and AVX-512 broadcasts.
type constant struct{ operand.Mem }

// constants remembers the data sections already declared, by bit pattern.
var constants = map[string]constant{}

// declare returns the constant of 32 bytes that repeat lane.
func declare(name string, size int, lane operand.Constant) constant {
	if k, ok := constants[name]; ok {
		return k
	}
	m := GLOBL(name, attr.RODATA|attr.NOPTR)
	for i := 0; i < 32; i += size {
		DATA(i, lane)
	}
	constants[name] = constant{m}
	return constants[name]
}

// bits32 returns the constant with the bit pattern in every 32-bit lane.
func bits32(b uint32) constant {
	return declare(fmt.Sprintf("lanes%08x", b), 4, operand.U32(b))
}

// bits64 returns the constant with the bit pattern in every 64-bit lane.
func bits64(b uint64) constant {
	return declare(fmt.Sprintf("quads%016x", b), 8, operand.U64(b))
}

// c returns the constant with the float32 in every lane.
func c(v float64) constant { return bits32(math.Float32bits(float32(v))) }
