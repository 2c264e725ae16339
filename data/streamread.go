package data

import "iter"

// streamReader reads blocks in the order of the stream, and starts a goroutine to tokenize each.
type streamReader struct {
	s           *Stream
	epoch, unit int
	block       int
	skip        int // blocks of the unit that were read before
	next        func() ([]string, error, bool)
	end         func()
	// ahead has the texts after those returned last, so that the last block of a unit is recognized.
	ahead []string
	more  bool
}

// newStreamReader returns a reader that continues after the blocks already walked.
func newStreamReader(s *Stream) *streamReader {
	r := &streamReader{s: s}
	if n := len(s.walked); n > 0 {
		w := s.walked[n-1]
		r.epoch, r.unit, r.skip = w.Epoch, w.Unit, w.Block+1
		if w.Last {
			r.turn()
		}
	}
	return r
}

// turn advances to the next unit.
func (r *streamReader) turn() {
	if r.unit, r.block, r.skip, r.next = r.unit+1, 0, 0, nil; r.unit == len(r.s.units) {
		r.epoch, r.unit = r.epoch+1, 0
	}
}

// start reads the next block and starts to tokenize it.
func (r *streamReader) start() *streamBlock {
	b := &streamBlock{done: make(chan struct{})}
	texts, err := r.read(b)
	if err != nil {
		b.err = err
		close(b.done)
		return b
	}
	go func() {
		defer close(b.done)
		if b.rows, b.err = r.s.tokenize(texts); b.err == nil {
			b.at.Rows = b.rows.Len()
		}
	}()
	return b
}

// read returns the texts of the next block and sets its position, b.at. A unit has at least one block,
// perhaps an empty one.
func (r *streamReader) read(b *streamBlock) (texts []string, err error) {
	if r.next == nil {
		u := r.s.unitAt(r.epoch, r.unit)
		next, end := iter.Pull2(u.blocks(r.s.c.BlockBytes, r.s.c.Documents))
		r.next, r.end = next, end
		for range r.skip {
			if _, err, _ := next(); err != nil {
				r.end()
				return nil, err
			}
		}
		r.block = r.skip
		if r.ahead, err, r.more = next(); err != nil {
			return nil, err
		}
	}
	texts = r.ahead
	b.at = Walked{Epoch: r.epoch, Unit: r.unit, Block: r.block}
	if r.more {
		if r.ahead, err, r.more = r.next(); err != nil {
			return nil, err
		}
	}
	r.block++
	if b.at.Last = !r.more; b.at.Last {
		r.end()
		r.turn()
	}
	return texts, nil
}

func (r *streamReader) close() {
	if r.next != nil {
		r.end()
	}
}
