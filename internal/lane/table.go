package lane

import "math"

// TableSize is the number of entries of a table: lanes of a vector of 512 bits.
const (
	TableSize = 1 << tableBits
	tableBits = 4
)

// The tables that Lookup names.
const (
	// powers are 2^(i/16).
	powers uint8 = iota
)

// Table returns the bits of a table's entries.
func Table(number uint8) (bits [TableSize]uint32) {
	if number != powers {
		panic("lane: no such table")
	}
	for i := range bits {
		bits[i] = math.Float32bits(float32(math.Exp2(float64(i) / TableSize)))
	}
	return bits
}
