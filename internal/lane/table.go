package lane

import "math"

// TableSize is the number of entries of a table: lanes of a vector of 512 bits.
const (
	TableSize = 1 << tableBits
	tableBits = 4
)

// The tables that Lookup names.
const (
	// powers are 2^(i/16), and powersLow what the nearest floats lack of that.
	powers uint8 = iota
	powersLow
)

// Table returns the bits of a table's entries.
func Table(number uint8) (bits [TableSize]uint32) {
	for i := range bits {
		exact := math.Exp2(float64(i) / TableSize)
		nearest := float32(exact)
		switch number {
		case powers:
			bits[i] = math.Float32bits(nearest)
		case powersLow:
			bits[i] = math.Float32bits(float32(exact - float64(nearest)))
		default:
			panic("lane: no such table")
		}
	}
	return bits
}
