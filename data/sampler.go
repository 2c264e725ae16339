package data

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// SamplerConfig configures a Sampler.
type SamplerConfig struct {
	Batch int    // windows in a batch; at least 1
	Seq   int    // input tokens of a window, which has one token more; at least 1
	Seed  uint64 // chooses the order of each epoch
	Order Order  // of the windows within an epoch; Shuffled by default
}

// Order is the order of the windows within an epoch.
type Order uint8

const (
	// Shuffled uses the windows in a new random order each epoch.
	Shuffled Order = iota
	// Sequential uses the windows in the order of the text.
	Sequential
)

// Sampler returns the windows of a text in batches. Window i has tokens i·Seq to i·Seq+Seq, so that each
// token is a label once an epoch; the last label of a window is the first input of the next, and tokens that
// do not fill a window are left out. Every epoch uses each window once. Batches do not stop at epochs: one
// may have the end of an epoch and the beginning of the next.
type Sampler struct {
	tokens  TokenSource
	windows int
	config  SamplerConfig
}

// TokenSource is a long sequence of tokens, in memory or on disk.
type TokenSource interface {
	Len() int
	// Read fills ids with the tokens from index at on; the source must have that many.
	Read(ids []int32, at int)
}

// InMemory is a TokenSource of a slice.
type InMemory []int32

// Len returns the number of tokens.
func (t InMemory) Len() int { return len(t) }

// Read copies tokens into ids.
func (t InMemory) Read(ids []int32, at int) { copy(ids, t[at:]) }

// NewSampler returns a sampler of ids, which it does not copy.
func NewSampler(ids []int32, config SamplerConfig) (*Sampler, error) {
	return NewSamplerOf(InMemory(ids), config)
}

// NewSamplerOf returns a sampler of the tokens of a source, such as a Shard.
func NewSamplerOf(tokens TokenSource, config SamplerConfig) (*Sampler, error) {
	switch {
	case config.Batch < 1:
		return nil, fmt.Errorf("sampler: batch: got %d, want at least 1", config.Batch)
	case config.Seq < 1:
		return nil, fmt.Errorf("sampler: seq: got %d, want at least 1", config.Seq)
	case config.Order > Sequential:
		return nil, fmt.Errorf("sampler: order: got %d, want Shuffled or Sequential", config.Order)
	case tokens.Len()-1 < config.Seq:
		return nil, fmt.Errorf("sampler: text is shorter than a window: got %d tokens, want at least %d+1",
			tokens.Len(), config.Seq)
	case !array.Shape{config.Batch, config.Seq + 1}.Valid():
		return nil, fmt.Errorf("sampler: batch is too large: got [%d,%d+1]", config.Batch, config.Seq)
	}
	return &Sampler{tokens: tokens, windows: (tokens.Len() - 1) / config.Seq, config: config}, nil
}

// Windows returns the number of windows in an epoch.
func (s *Sampler) Windows() int { return s.windows }

// Batch returns the i32[Batch,Seq+1] of a step, counted from 0. It depends on the config and the step only.
func (s *Sampler) Batch(step int) array.Array { return s.From(int64(step) * int64(s.config.Batch)) }

// From returns the batch that begins with a window, counted from the beginning of the run over all epochs: a
// run that resumes with another batch size continues with the next window.
func (s *Sampler) From(sample int64) array.Array { return s.Part(sample, everyRow) }

// Part is like From, but reads only the windows of rows for which own returns true; the others are zero.
func (s *Sampler) Part(sample int64, own func(row int) bool) array.Array {
	width := s.config.Seq + 1
	a := array.New(array.I32, s.config.Batch, width)
	rows := array.Data[int32](a)
	for i := range s.config.Batch {
		if !own(i) {
			continue
		}
		begin := s.window(uint64(sample)+uint64(i)) * s.config.Seq
		s.tokens.Read(rows[i*width:(i+1)*width], begin)
	}
	return a
}

// window returns the index of the i-th window of the run, over all epochs.
func (s *Sampler) window(i uint64) int {
	n := uint64(s.windows)
	epoch, place := i/n, i%n
	if s.config.Order == Sequential {
		return int(place)
	}
	return int(newPermutation(n, s.config.Seed, epoch).at(place))
}

// Split cuts ids in two: the first part, to train on, has the given fraction of them, and the tail is held
// out. Both share ids.
func Split(ids []int32, fraction float64) (train, held []int32, err error) {
	if !(fraction >= 0 && fraction <= 1) { // NaN is neither
		return nil, nil, fmt.Errorf("split: fraction: got %v, want 0 to 1", fraction)
	}
	n := int(fraction * float64(len(ids)))
	return ids[:n:n], ids[n:], nil
}
