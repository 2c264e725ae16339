package process

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// noteKind is the kind of a note.
type noteKind uint8

const (
	arrivedNote  noteKind = iota // all members of a process have arrived at a rendezvous
	failNote                     // the run has failed
	endNote                      // all workers of a process have returned
	leftNote                     // the collectives of a process that others did not join
	probeNote                    // a rank waits for another, in search of a cycle
	askNote                      // liveness check
	answerNote                   // answer to it
	exchangeNote                 // the data of a process in an Exchange
	leaveNote                    // a process is about to end
	reportedNote                 // the first process has reported why the job ends
	putNote                      // a value for a key
	noteKindEnd                  // the number of kinds
	lostNote                     // a process is lost: never sent, but queued like a note to be handled in order
)

// note is a received note; body is its kind's part, valid only while it is handled unless kept.
type note struct {
	from       int
	kind       noteKind
	world, run int
	body       []byte
	lost       error // why the process is lost
}

// kept returns the note with a copy of its body.
func (n note) kept() note {
	n.body = slices.Clone(n.body)
	return n
}

// parseNote reads the header that all notes have.
func parseNote(from int, b []byte) (note, error) {
	r := reader{rest: b}
	n := note{from: from, kind: noteKind(r.byte()), world: r.count(1 << 20), run: r.count(1 << 40)}
	if r.bad || n.kind >= noteKindEnd {
		return n, fmt.Errorf("a note of %d bytes cannot be read", len(b))
	}
	n.body = r.rest
	return n, nil
}

// reader reads numbers and bytes; after malformed input it returns zeros and is marked bad.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

// count reads a number of at most limit.
func (r *reader) count(limit int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(limit) {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// length reads the length of a list whose elements have at least one byte each.
func (r *reader) length() int {
	n := r.count(len(r.rest))
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return 0
	}
	return n
}

func (r *reader) uint64() uint64 {
	if len(r.rest) < 8 {
		r.bad, r.rest = true, nil
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// bytes reads a list of bytes, which shares the note's memory.
func (r *reader) bytes() []byte {
	n := r.length()
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

// ranks reads a list of numbers below limit.
func (r *reader) ranks(limit int) []int {
	list := make([]int, r.length())
	for i := range list {
		if list[i] = r.count(limit); list[i] == limit {
			r.bad = true
		}
	}
	return list
}

func appendCount(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(appendCount(b, len(s)), s...)
}

func appendRanks(b []byte, ranks []int) []byte {
	b = appendCount(b, len(ranks))
	for _, r := range ranks {
		b = appendCount(b, r)
	}
	return b
}
