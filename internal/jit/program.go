package jit

import "github.com/galley-ml/galley/internal/lane"

// Level tells how often a value is computed.
type Level uint8

const (
	// Elem values are computed for each element, Row values once a row, Const values never.
	Elem Level = iota
	Row
	Const
)

// Kind is the kind of a value.
type Kind uint8

const (
	// Stream is loaded from memory, Map computed from other values by a formula, Fold reduced over all elements
	// of a row; Number is a constant, and Copy is another value under its own name.
	Stream Kind = iota
	Map
	Fold
	Number
	Copy
)

// Value is one value of a loop.
type Value struct {
	Kind   Kind
	Level  Level
	Stream int   // that it is loaded from
	In     []int // values
	Lane   func(b *lane.Builder, in []lane.Arg) lane.Arg
	Fold   lane.Fold
	Count  int     // divides a sum if it is not 0
	Number float64 // of the lane's bits as a float
	Phase  int     // in which it is first available: that of a fold is one more than that of its operand
	Truth  bool
}

// Store is a value that is written to a stream, or added to the numbers there.
type Store struct {
	Value, Stream int
	Add           bool
}

// Program is a loop over rows of Cols columns.
type Program struct {
	Cols   int
	Values []Value
	Stores []Store
	// Streams is the number of arrays that the loop reads and writes, each with a pointer and a stride.
	Streams int
	// Double reports whether lanes have 64 bits instead of 32.
	Double bool
	// Bytes is the element size of each stream: that of a lane, 2 for 16-bit floats, or 1 for truth values.
	Bytes []int
	// Half reports which streams of 16-bit floats are f16 instead of bf16; nil means none.
	Half []bool
	// Past reports which written streams use non-temporal stores, which bypass the cache: their rows begin at
	// multiples of PastAlign and have a multiple of as many bytes; nil means none.
	Past []bool
}

// PastAlign is the alignment of non-temporal stores.
const PastAlign = 64

// past reports whether a stream uses non-temporal stores; if a later pass reads it, it does not.
func (c *compiler) past(stream int) bool {
	if stream >= len(c.p.Past) || !c.p.Past[stream] {
		return false
	}
	for i, v := range c.p.Values {
		if v.Level == Elem && c.storeOf(i) == stream && c.crosses(i) {
			return false
		}
	}
	return true
}
