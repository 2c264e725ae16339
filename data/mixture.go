package data

import (
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/galley-ml/galley/array"
)

// MixtureSource is one source of a mixture.
type MixtureSource struct {
	// Name is used in messages and facts.
	Name string
	// Rows or Stream is the source of rows; exactly one is set.
	Rows   RowSource
	Stream *Stream
	// Weight is its share of all samples, relative to the sum of weights; it must be positive.
	Weight float64
	// Fact, if set, identifies the rows.
	Fact string
}

// MixtureConfig configures a Mixture.
type MixtureConfig struct {
	Batch, Seq int
	Seed       uint64
	Order      Order
	// Packed adds segments and positions to the batches of packed rows.
	Packed bool
}

// Mixture draws rows from several sources by weight. Sample k of a run depends only on the config and on k,
// whatever the devices, loaders and restarts. Each source is shuffled anew in each of its epochs.
type Mixture struct {
	sources []MixtureSource
	config  MixtureConfig
	// cycle has the source of each of cycleLen samples, rank the sample's index among those of its source in the
	// cycle; shares has the number of samples of each source.
	cycle  []uint16
	rank   []int32
	shares []int
}

// cycleLen is the number of samples after which the order of sources repeats: shares are exact to 1/cycleLen.
const cycleLen = 1 << 14

// NewMixture checks the sources and computes the cycle in which they are drawn.
func NewMixture(sources []MixtureSource, c MixtureConfig) (*Mixture, error) {
	switch {
	case c.Batch < 1 || c.Seq < 1:
		return nil, fmt.Errorf("mixture: batch and seq: got %d and %d, want at least 1", c.Batch, c.Seq)
	case !array.Shape{c.Batch, c.Seq + 1}.Valid():
		return nil, fmt.Errorf("mixture: batch is too large: got [%d,%d]", c.Batch, c.Seq)
	case c.Order > Sequential:
		return nil, fmt.Errorf("mixture: order: got %d, want Shuffled or Sequential", c.Order)
	case len(sources) == 0 || len(sources) > math.MaxUint16:
		return nil, fmt.Errorf("mixture: %d sources: want 1 to %d", len(sources), math.MaxUint16)
	}
	m := &Mixture{sources: sources, config: c}
	if err := m.share(); err != nil {
		return nil, err
	}
	m.interleave()
	return m, nil
}

// share sets each source's samples per cycle; those left by rounding go to the largest remainders.
func (m *Mixture) share() error {
	total := 0.0
	for _, s := range m.sources {
		if !(s.Weight > 0) || math.IsInf(s.Weight, 0) {
			return fmt.Errorf("mixture: %s: weight: got %v, want more than 0", s.Name, s.Weight)
		}
		if s.Stream == nil && s.Rows.Len() == 0 {
			return fmt.Errorf("mixture: %s: it has no samples", s.Name)
		}
		total += s.Weight
	}
	rests := make([]float64, len(m.sources))
	order := make([]int, len(m.sources))
	left := cycleLen
	for i, s := range m.sources {
		exact := s.Weight / total * cycleLen
		m.shares = append(m.shares, int(exact))
		rests[i], order[i] = exact-math.Floor(exact), i
		left -= int(exact)
	}
	sort.SliceStable(order, func(a, b int) bool { return rests[order[a]] > rests[order[b]] })
	for i := range left {
		m.shares[order[i%len(order)]]++
	}
	for i, n := range m.shares {
		if n == 0 {
			return fmt.Errorf(
				"mixture: %s: weight %v of %v is less than one sample in %d: leave it out, or weigh it more",
				m.sources[i].Name,
				m.sources[i].Weight,
				total,
				cycleLen,
			)
		}
	}
	return nil
}

// interleave orders the cycle so that every prefix of it has each source's share as exactly as whole samples
// allow: each sample comes from the source that is furthest behind.
func (m *Mixture) interleave() {
	m.cycle, m.rank = make([]uint16, cycleLen), make([]int32, cycleLen)
	dealt := make([]int, len(m.shares))
	for k := range m.cycle {
		best, most := 0, math.Inf(-1)
		for i, n := range m.shares {
			if behind := float64(n)*float64(k+1)/cycleLen - float64(dealt[i]); behind > most && dealt[i] < n {
				best, most = i, behind
			}
		}
		m.cycle[k], m.rank[k] = uint16(best), int32(dealt[best])
		dealt[best]++
	}
}

// SampleID identifies a sample by source and row.
type SampleID struct {
	// Source is the index of the source, Row that of the row in it; Epoch is how many times all rows of the
	// source were used before. For a stream, whose epochs have no known length, Row counts over all epochs.
	Source, Row int
	Epoch       int64
}

// ID returns the source and row of sample k of the run.
func (m *Mixture) ID(k int64) SampleID {
	at := k % cycleLen
	s := int(m.cycle[at])
	dealt := k/cycleLen*int64(m.shares[s]) + int64(m.rank[at])
	if m.sources[s].Stream != nil {
		return SampleID{Source: s, Row: int(dealt)}
	}
	n := int64(m.sources[s].Rows.Len())
	id := SampleID{Source: s, Row: int(dealt % n), Epoch: dealt / n}
	if m.config.Order == Shuffled {
		seed := m.config.Seed
		if s > 0 { // the first source is shuffled as a Sampler would
			seed = mix(seed + uint64(s))
		}
		id.Row = int(newPermutation(uint64(n), seed, uint64(id.Epoch)).at(uint64(id.Row)))
	}
	return id
}

// Rows returns the number of rows of all sources, without streams.
func (m *Mixture) Rows() int {
	n := 0
	for _, s := range m.sources {
		if s.Stream == nil {
			n += s.Rows.Len()
		}
	}
	return n
}

// Streams returns the sources that are streams.
func (m *Mixture) Streams() (list []*Stream) {
	for _, s := range m.sources {
		if s.Stream != nil {
			list = append(list, s.Stream)
		}
	}
	return list
}

// Len returns the number of whole batches in the rows of all sources, at least one.
func (m *Mixture) Len() int { return max(1, m.Rows()/m.config.Batch) }

// Batch returns the batch of a step, counted from 0.
func (m *Mixture) Batch(step int) ([]array.Array, error) {
	return m.Try(int64(step) * int64(m.config.Batch))
}

// From is like Try, for sources that are not streams and so cannot fail.
func (m *Mixture) From(sample int64) []array.Array {
	batch, err := m.Try(sample)
	if err != nil {
		panic("data: From of a mixture with a stream, want Try: " + err.Error())
	}
	return batch
}

// Try returns the batch that begins with a sample: ids and labels, both i32[Batch,Seq], and for packed rows
// segments and positions. Only streams fail.
func (m *Mixture) Try(sample int64) ([]array.Array, error) { return m.Part(sample, everyRow) }

// Part is like Try, but makes only the rows for which own returns true, and those of streams, which are read
// in order; the others are zero.
func (m *Mixture) Part(sample int64, own func(row int) bool) ([]array.Array, error) {
	b := newRows(m.config.Batch, m.config.Seq, m.config.Packed)
	for i := range m.config.Batch {
		id := m.ID(sample + int64(i))
		src := &m.sources[id.Source]
		if src.Stream == nil {
			if own(i) {
				src.Rows.Fill(id.Row, b.row(i))
			}
		} else if err := src.Stream.Fill(int64(id.Row), b.row(i)); err != nil {
			return nil, fmt.Errorf("%s: %w", src.Name, err)
		}
	}
	return b.arrays, nil
}

// rowsBatch is a batch that is being filled.
type rowsBatch struct {
	arrays []array.Array
	seq    int
}

func newRows(batch, seq int, packed bool) rowsBatch {
	n := 2
	if packed {
		n = 4
	}
	b := rowsBatch{seq: seq}
	for range n {
		b.arrays = append(b.arrays, array.New(array.I32, batch, seq))
	}
	return b
}

func (b rowsBatch) row(i int) Row {
	part := func(k int) []int32 {
		if k >= len(b.arrays) {
			return nil
		}
		return array.Data[int32](b.arrays[k])[i*b.seq : (i+1)*b.seq]
	}
	return Row{part(0), part(1), part(2), part(3)}
}

// Facts returns the facts that the batches depend on.
func (m *Mixture) Facts() []Fact {
	text := ""
	for i, s := range m.sources {
		if i > 0 {
			text += "; "
		}
		if len(m.sources) > 1 {
			text += fmt.Sprintf("%.6g of ", float64(m.shares[i])/cycleLen)
		}
		if s.Stream != nil {
			text += s.Stream.Fact()
		} else {
			text += fmt.Sprintf("%d rows", s.Rows.Len())
		}
		if s.Fact != "" {
			text += ", " + s.Fact
		}
	}
	if m.config.Packed {
		text += "; packed"
	}
	return []Fact{{"data", text}, {"batch", strconv.Itoa(m.config.Batch)}, {"seq", strconv.Itoa(m.config.Seq)},
		orderFact(m.config.Order, m.config.Seed)}
}

// HashTokens returns the value of a fact of tokens: their number, and a hash of them.
func HashTokens(t TokenSource) string {
	return fmt.Sprintf("%d tokens, hash %016x", t.Len(), hashTokens(t))
}
