package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/galley-ml/galley/array"
)

// Preferences are pairs of answers to the same prompt, one of which is preferred.
type Preferences struct {
	pairs [][2]chat // chosen, rejected
	// Cut counts the pairs that were too long, Left those of them left out because an answer was not within Seq.
	Cut, Left int
	// Reference has the reference model's log-probabilities of both answers of each pair, if known.
	Reference [][2]float32
}

// ReadPreferences reads pairs from JSON Lines files: a prompt, chosen and rejected, texts or messages;
// without a prompt, chosen and rejected are whole conversations whose last message is the answer.
func ReadPreferences(paths []string, c ChatConfig) (*Preferences, error) {
	p := &Preferences{}
	err := c.lines(paths, func(raw []byte) error { return p.add(raw, c) })
	if err == nil && len(p.pairs) == 0 {
		err = fmt.Errorf("data: %q: no pair with answers within %d tokens", paths, c.Seq)
	}
	return p, err
}

func (p *Preferences) add(raw []byte, c ChatConfig) error {
	var line struct{ Prompt, Chosen, Rejected *turn }
	if err := json.Unmarshal(raw, &line); err != nil {
		return err
	}
	if line.Chosen == nil || line.Rejected == nil {
		return errors.New("want chosen and rejected")
	}
	var pair [2]chat
	isCut, left := false, false
	for i, answer := range []turn{*line.Chosen, *line.Rejected} {
		m, err := preferred(line.Prompt, answer, c)
		if err != nil {
			return err
		}
		x, cut, err := c.encode(m)
		if err != nil {
			return err
		}
		pair[i], isCut, left = x, isCut || cut, left || x.ids == nil
	}
	if isCut {
		p.Cut++
	}
	if left {
		p.Left++
		return nil
	}
	p.pairs = append(p.pairs, pair)
	return nil
}

// preferred renders one answer of a pair with its prompt.
func preferred(prompt *turn, answer turn, c ChatConfig) (marked, error) {
	if prompt != nil {
		return answered(c.template(), *prompt, answer, c.End)
	}
	n := len(answer.messages)
	if n < 2 {
		return marked{}, errors.New("it has no prompt: want one, or whole conversations as messages")
	}
	return answered(c.template(), turn{messages: answer.messages[:n-1]}, turn{messages: answer.messages[n-1:]},
		c.End)
}

// Len returns the number of pairs.
func (p *Preferences) Len() int { return len(p.pairs) }

// Examples returns the answers of all pairs, each as an example.
func (p *Preferences) Examples() Examples {
	e := &Chats{}
	for _, x := range p.pairs {
		e.list = append(e.list, x[0], x[1])
	}
	return e
}

// Split holds out a share of the pairs, chosen by the seed, as Corpus.Split does.
func (p *Preferences) Split(held float64, seed uint64) (train, valid *Preferences, err error) {
	train, valid = &Preferences{}, &Preferences{}
	inHeld, err := heldOut(len(p.pairs), held, seed)
	if err != nil {
		return nil, nil, err
	}
	for i, x := range p.pairs {
		part := train
		if inHeld(i) {
			part = valid
		}
		part.pairs = append(part.pairs, x)
		if p.Reference != nil {
			part.Reference = append(part.Reference, p.Reference[i])
		}
	}
	return train, valid, nil
}

// heldOut returns a function that reports which of n items are held out.
func heldOut(n int, held float64, seed uint64) (func(i int) bool, error) {
	if !(held >= 0 && held < 1) { // NaN is neither
		return nil, fmt.Errorf("data: share to hold out: got %v, want 0 to less than 1", held)
	}
	count := 0
	if held > 0 && n > 1 {
		count = min(max(1, int(held*float64(n)+0.5)), n-1)
	}
	order := newPermutation(uint64(max(n, 1)), seed, 0)
	return func(i int) bool { return order.at(uint64(i)) < uint64(count) }, nil
}

// Pairs returns preferences in batches.
type Pairs struct {
	p      *Preferences
	seq    int
	config LoaderConfig
}

// NewPairs returns batches of pairs, padded to seq tokens.
func NewPairs(p *Preferences, seq int, c LoaderConfig) (*Pairs, error) {
	switch {
	case c.Batch < 1 || seq < 1:
		return nil, fmt.Errorf("pairs: batch and seq: got %d and %d, want at least 1", c.Batch, seq)
	case p.Len() == 0:
		return nil, errors.New("pairs: there are none")
	}
	return &Pairs{p: p, seq: seq, config: c}, nil
}

// Len returns the number of whole batches in an epoch, at least one.
func (p *Pairs) Len() int { return max(1, p.p.Len()/p.config.Batch) }

// From returns the batch that begins with a pair: ids and labels, both i32[Batch,2,Seq], chosen before
// rejected, and, if known, the reference's log-probabilities as f32[Batch,2].
func (p *Pairs) From(sample int64) []array.Array {
	b := p.config.Batch
	out := []array.Array{array.New(array.I32, b, 2, p.seq), array.New(array.I32, b, 2, p.seq)}
	if p.p.Reference != nil {
		out = append(out, array.New(array.F32, b, 2))
	}
	ids, labels := array.Data[int32](out[0]), array.Data[int32](out[1])
	for i := range b {
		at := p.pair(uint64(sample) + uint64(i))
		for k, x := range p.p.pairs[at] {
			begin := (2*i + k) * p.seq
			r := Row{IDs: ids[begin : begin+p.seq], Labels: labels[begin : begin+p.seq]}
			x.fill(r.IDs, r.Labels)
			pad(r, len(x.ids)-1)
			if p.p.Reference != nil {
				array.Data[float32](out[2])[2*i+k] = p.p.Reference[at][k]
			}
		}
	}
	return out
}

// pair returns the index of the i-th pair of the run, over all epochs.
func (p *Pairs) pair(i uint64) int {
	n := uint64(p.p.Len())
	if p.config.Order == Sequential {
		return int(i % n)
	}
	return int(newPermutation(n, p.config.Seed, i/n).at(i % n))
}

// Facts returns the facts that the batches depend on.
func (p *Pairs) Facts() []Fact {
	return []Fact{{"data", HashExamples(p.p.Examples())}, {"batch", strconv.Itoa(p.config.Batch)},
		{"seq", strconv.Itoa(p.seq)}, orderFact(p.config.Order, p.config.Seed)}
}
