package data

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"sync"
)

// StreamConfig configures how a Stream makes rows of texts.
type StreamConfig struct {
	Tokenizer Tokenizer
	// End is the token after every document; -1 is none.
	End int32
	// Seq is the number of tokens of a row; Rows makes rows of a block's documents: Pack, Pad or Windows.
	Seq  int
	Rows func(c *Corpus) (RowSource, error)
	// Documents configures how files are read.
	Documents DocumentsConfig
	Seed      uint64
	Order     Order
	// Keep, if set, reports which documents are used.
	Keep func(text string) bool
	// BlockBytes is about how much text is tokenized and shuffled together; 0 means 4 MiB.
	BlockBytes int64
	// Ahead is how many blocks are tokenized in advance, each by one goroutine; 0 means as many as there are
	// cores.
	Ahead int
	// Vocab, if not 0, is the size of the vocabulary: a token that is not below it is an error.
	Vocab int
}

// Stream is a source of rows whose texts are tokenized when they are needed. Row n depends on the files, the
// config and n alone. The files are cut into blocks; each epoch shuffles the blocks, and the rows within
// each. The position of a row is known only after the blocks before it have been tokenized, so Walked records
// the blocks for a run that resumes. Its methods may be called concurrently.
type Stream struct {
	busy  sync.Mutex
	c     StreamConfig
	units []unit
	fact  string
	// walked are the blocks so far, in the order of their rows.
	walked []Walked
	// coming are blocks that are being tokenized, the next one first; at is the position of the block after
	// them.
	coming []*streamBlock
	reader *streamReader
	// near are the blocks of the latest rows, the latest last.
	near []*streamBlock
	stop context.CancelFunc
	ctx  context.Context
}

// ErrNoRows means that a stream's text does not make a row.
var ErrNoRows = errors.New("the stream has no row")

// Walked is the position of a block in a stream, and the number of its first row.
type Walked struct {
	// Epoch, Unit and Block identify the block: Unit is an index in the epoch's order of units.
	Epoch, Unit, Block int
	First              int64
	Rows               int
	// Last says that the block is the last of its unit.
	Last bool
}

// streamBlock is a block that is being tokenized, or has been.
type streamBlock struct {
	at   Walked
	done chan struct{}
	rows RowSource
	err  error
}

// NewStream reads the files' names and sizes, but no text yet. Close ends its goroutines.
func NewStream(paths []string, c StreamConfig) (*Stream, error) {
	if c.BlockBytes == 0 {
		c.BlockBytes = 4 << 20
	}
	if c.Ahead == 0 {
		c.Ahead = runtime.GOMAXPROCS(0)
	}
	units, err := unitsOf(paths, c.BlockBytes, c.Documents.Formats)
	if err != nil {
		return nil, err
	}
	fact, err := hashInputs(paths)
	if err != nil {
		return nil, err
	}
	s := &Stream{c: c, units: units, fact: fmt.Sprintf("%s, streamed in blocks of %d bytes", fact, c.BlockBytes)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Fact returns the value of the fact that the rows depend on besides the config.
func (s *Stream) Fact() string { return s.fact }

// Close stops tokenizing.
func (s *Stream) Close() {
	s.busy.Lock()
	defer s.busy.Unlock()
	s.stop()
	for _, b := range s.coming {
		<-b.done
	}
	s.coming = nil
	if s.reader != nil {
		s.reader.close()
	}
}

// Walked returns the blocks of rows that have been read so far; another stream over the same files continues
// after them with Resume, without tokenizing them again.
func (s *Stream) Walked() []Walked {
	s.busy.Lock()
	defer s.busy.Unlock()
	return slices.Clone(s.walked)
}

// Resume makes a new stream continue after the blocks of an earlier one.
func (s *Stream) Resume(list []Walked) error {
	at := int64(0)
	for i, w := range list {
		if w.First != at || w.Rows < 0 || w.Unit < 0 || w.Unit >= len(s.units) {
			return fmt.Errorf("data: block %d of a stream is %+v: want one that begins with row %d", i, w, at)
		}
		at += int64(w.Rows)
	}
	s.walked = slices.Clone(list)
	return nil
}

// Fill writes row n.
func (s *Stream) Fill(n int64, r Row) error {
	s.busy.Lock()
	defer s.busy.Unlock()
	b, err := s.block(n)
	if err != nil {
		return err
	}
	row := n - b.at.First
	if s.c.Order == Shuffled {
		key := mix(s.c.Seed + uint64(b.at.Unit)<<20 + uint64(b.at.Block))
		row = int64(newPermutation(uint64(b.at.Rows), key, uint64(b.at.Epoch)).at(uint64(row)))
	}
	b.rows.Fill(int(row), r)
	return nil
}

// find returns the position of the walked block that has row n.
func (s *Stream) find(n int64) Walked {
	i, _ := slices.BinarySearchFunc(s.walked, n, func(w Walked, n int64) int {
		if w.First+int64(w.Rows) <= n {
			return -1
		}
		return 1
	})
	return s.walked[i]
}

// block returns the block of row n.
func (s *Stream) block(n int64) (*streamBlock, error) {
	for _, b := range s.near {
		if n >= b.at.First && n < b.at.First+int64(b.at.Rows) {
			return b, nil
		}
	}
	if len(s.walked) > 0 && n < s.end() {
		b := s.again(s.find(n))
		return s.keep(b), b.err
	}
	for {
		b, err := s.next()
		if err != nil {
			return nil, err
		}
		if n < s.end() {
			return s.keep(b), nil
		}
		if b.at.Epoch > 0 && s.end() == 0 {
			return nil, fmt.Errorf("data: %w of %d tokens: want more text, or shorter rows", ErrNoRows, s.c.Seq)
		}
	}
}

// end returns the number of rows of the walked blocks.
func (s *Stream) end() int64 {
	if len(s.walked) == 0 {
		return 0
	}
	w := s.walked[len(s.walked)-1]
	return w.First + int64(w.Rows)
}

// keep caches a block and the one before it, in which a batch may begin.
func (s *Stream) keep(b *streamBlock) *streamBlock {
	if s.near = append(s.near, b); len(s.near) > 2 {
		s.near = s.near[1:]
	}
	return b
}

// next returns the next block, and starts to tokenize those after it.
func (s *Stream) next() (*streamBlock, error) {
	if s.reader == nil {
		s.reader = newStreamReader(s)
	}
	for len(s.coming) <= s.c.Ahead {
		s.coming = append(s.coming, s.reader.start())
	}
	b := s.coming[0]
	<-b.done
	if b.err != nil {
		return nil, b.err
	}
	s.coming = s.coming[1:]
	b.at.First = s.end()
	s.walked = append(s.walked, b.at)
	return b, nil
}

// again tokenizes a block that was walked before.
func (s *Stream) again(w Walked) *streamBlock {
	r := &streamReader{s: s, epoch: w.Epoch, unit: w.Unit, skip: w.Block}
	defer r.close()
	b := r.start()
	<-b.done
	if b.err == nil && b.at.Rows != w.Rows {
		b.err = fmt.Errorf("data: block %d of %s has %d rows, and had %d: it has changed", w.Block,
			s.unitAt(w.Epoch, w.Unit).path, b.at.Rows, w.Rows)
	}
	b.at = w
	return b
}

// unitAt returns the unit at an index of an epoch's order.
func (s *Stream) unitAt(epoch, place int) unit {
	if s.c.Order == Shuffled {
		place = int(newPermutation(uint64(len(s.units)), s.c.Seed, uint64(epoch)).at(uint64(place)))
	}
	return s.units[place]
}

// tokenize tokenizes texts and makes rows of them.
func (s *Stream) tokenize(texts []string) (RowSource, error) {
	var documents [][]int32
	for _, text := range texts {
		if s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		if s.c.Keep != nil && !s.c.Keep(text) {
			continue
		}
		ids := s.c.Tokenizer.Encode(text)
		if s.c.End >= 0 {
			ids = append(slices.Clip(ids), s.c.End)
		}
		if len(ids) == 0 {
			continue
		}
		if most := slices.Max(ids); s.c.Vocab > 0 && int(most) >= s.c.Vocab {
			return nil, fmt.Errorf("data: the text has token %d: the model has %d: want the model's tokenizer", most,
				s.c.Vocab)
		}
		documents = append(documents, ids)
	}
	c := NewCorpus(documents...)
	if c.Len() == 0 {
		return noRows{}, nil
	}
	rows, err := s.c.Rows(c)
	if err != nil { // less text than a window
		return noRows{}, nil
	}
	return rows, nil
}

type noRows struct{}

func (noRows) Len() int      { return 0 }
func (noRows) Fill(int, Row) {}

// HeldOut reports whether a document is held out, by its text and the seed alone.
func HeldOut(text string, share float64, seed uint64) bool {
	h := fnv.New64a()
	h.Write([]byte(text))
	return float64(mix(h.Sum64()^mix(seed))>>11)/(1<<53) < share
}
