package jit

import "github.com/galley-ml/galley/internal/lane"

// Level is how often a value is computed.
type Level uint8

const (
	// Elem is once an element, Row once a row, Const never.
	Elem Level = iota
	Row
	Const
)

// Kind is what a value is.
type Kind uint8

const (
	// Stream is read from memory, Map computed from others by a formula, Fold from all elements of a row;
	// Number is the same everywhere, and Copy another value under its own name.
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
	Stream int   // that it is read from
	In     []int // values
	Lane   func(b *lane.Builder, in []lane.Arg) lane.Arg
	Fold   lane.Fold
	Count  int     // divides a sum where it is not 0
	Number float64 // of the lane's bits as a float
	Phase  int     // in which it is first known: a fold's is one more than that of what it folds
	Truth  bool
}

// Store is a value that is written to a stream: as it is, or added to the numbers there.
type Store struct {
	Value, Stream int
	Add           bool
}

// Program is a loop over rows of so many columns.
type Program struct {
	Cols   int
	Values []Value
	Stores []Store
	// Streams is how many places in memory the loop walks over: each with a pointer and a stride.
	Streams int
	// Double is whether lanes have 64 bits, and not 32.
	Double bool
	// Bytes is, of each stream, the size of an element: that of a lane, 2 for 16-bit floats, or 1 for truths.
	Bytes []int
	// Half is, of each stream of 16-bit floats, whether they have 5 bits of exponent, and not 8; nil is none.
	Half []bool
	// Past is, of each stream that is written, whether it goes past the cache to memory: then its rows begin at
	// multiples of PastAlign, and have as many bytes; nil is none.
	Past []bool
}

// PastAlign is where vectors begin that are written past the cache.
const PastAlign = 64

// past reports whether a stream is written past the cache. What a later pass over the row reads again is not.
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
