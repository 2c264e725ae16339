package process

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// noteKind is what a note is about.
type noteKind uint8

const (
	comeNote    noteKind = iota // all members of a process have come to a meeting
	failNote                    // the run has failed
	endNote                     // all workers of a process have returned
	leftNote                    // what a process has begun that nobody else came to
	probeNote                   // a rank waits for another, perhaps for itself
	askNote                     // is anybody there
	answerNote                  // yes
	giveNote                    // what a process gives in an exchange
	leaveNote                   // a process is about to end
	toldNote                    // the first process has told why the job ends
	putNote                     // a value for a key
	noteKindEnd                 // how many there are
	goneNote                    // nothing more will come of a process: no note, but handled in turn with them
)

// note is a note as it came: body is its own part, valid while it is handled unless kept.
type note struct {
	from       int
	kind       noteKind
	world, run int
	body       []byte
	gone       error // why nothing more will come
}

// kept returns the note with a body of its own.
func (n note) kept() note {
	n.body = slices.Clone(n.body)
	return n
}

// parseNote reads what all notes begin with.
func parseNote(from int, b []byte) (note, error) {
	r := reader{rest: b}
	n := note{from: from, kind: noteKind(r.byte()), world: r.count(1 << 20), run: r.count(1 << 40)}
	if r.bad || n.kind >= noteKindEnd {
		return n, fmt.Errorf("a note of %d bytes cannot be read", len(b))
	}
	n.body = r.rest
	return n, nil
}

// reader reads numbers and bytes until there is something that is none.
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

// count returns a number of at most limit.
func (r *reader) count(limit int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(limit) {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// length returns the length of a list, each of whose elements has at least one byte.
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

// bytes returns a list of bytes, shared with the note.
func (r *reader) bytes() []byte {
	n := r.length()
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes()) }

// ranks returns a list of numbers below limit.
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
