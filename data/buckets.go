package data

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/galley-ml/galley/array"
)

// BucketsConfig configures Buckets.
type BucketsConfig struct {
	Batch int
	Seed  uint64
	Order Order
	// Lengths are the padded lengths; each row uses the shortest that holds it. One program is compiled for
	// each, up to Programs; 0 means 8.
	Lengths  []int
	Programs int
}

// Buckets batches examples of similar length, one per row, padded to the length of their bucket. Every
// example is in one batch of an epoch; an incomplete batch is filled with rows that are ignored.
type Buckets struct {
	e      Examples
	config BucketsConfig
	// order is the examples by bucket; bucket b has the batches from first[b] to first[b+1], and the examples
	// from begin[b] on.
	order        []int32
	first, begin []int
}

// NewBuckets sorts the examples into buckets. Those that do not fill a batch move to the next longer bucket.
func NewBuckets(e Examples, c BucketsConfig) (*Buckets, error) {
	if c.Programs == 0 {
		c.Programs = 8
	}
	switch {
	case c.Batch < 1:
		return nil, fmt.Errorf("buckets: batch: got %d, want at least 1", c.Batch)
	case len(c.Lengths) == 0 || c.Lengths[0] < 1 || !slices.IsSorted(c.Lengths):
		return nil, fmt.Errorf("buckets: lengths: got %v, want rising numbers", c.Lengths)
	case len(slices.Compact(slices.Clone(c.Lengths))) > c.Programs:
		return nil, fmt.Errorf("buckets: %d lengths make as many programs: want at most %d", len(c.Lengths),
			c.Programs)
	}
	longest := c.Lengths[len(c.Lengths)-1]
	if err := checkExamples(e, longest); err != nil {
		return nil, err
	}
	b := &Buckets{e: e, config: c, order: bySize(e, longest), first: []int{0}, begin: []int{0}}
	slices.Reverse(b.order) // the shortest first
	b.fill()
	return b, nil
}

// fill cuts the order into buckets of whole batches; the last bucket has the remaining examples.
func (b *Buckets) fill() {
	at := 0
	for k, length := range b.config.Lengths {
		end := at
		for end < len(b.order) && b.e.Size(int(b.order[end])) <= length {
			end++
		}
		batches := (end - at) / b.config.Batch
		if k == len(b.config.Lengths)-1 {
			batches = (end - at + b.config.Batch - 1) / b.config.Batch
		}
		at = min(at+batches*b.config.Batch, len(b.order))
		b.first, b.begin = append(b.first, b.first[k]+batches), append(b.begin, at)
	}
}

// Len returns the number of batches in an epoch.
func (b *Buckets) Len() int { return b.first[len(b.first)-1] }

// From returns the batch that starts at a sample index, which must be a multiple of the batch size.
func (b *Buckets) From(sample int64) []array.Array {
	n := int64(b.Len())
	i := sample / int64(b.config.Batch)
	batch := int(i % n)
	if b.config.Order == Shuffled {
		batch = int(newPermutation(uint64(n), b.config.Seed, uint64(i/n)).at(uint64(batch)))
	}
	return b.make(batch, i/n)
}

// Batch returns the batch of a step, counted from 0.
func (b *Buckets) Batch(step int) ([]array.Array, error) {
	return b.From(int64(step) * int64(b.config.Batch)), nil
}

// make returns a batch of an epoch, which shuffles the examples within each bucket.
func (b *Buckets) make(batch int, epoch int64) []array.Array {
	k, _ := slices.BinarySearch(b.first, batch+1)
	k--
	rows := newRows(b.config.Batch, b.config.Lengths[k], false)
	begin, size := b.begin[k], b.begin[k+1]-b.begin[k]
	order := newPermutation(uint64(max(size, 1)), mix(b.config.Seed+uint64(k)), uint64(epoch))
	for i := range b.config.Batch {
		r := rows.row(i)
		at := (batch-b.first[k])*b.config.Batch + i
		if at >= size {
			pad(r, 0)
			continue
		}
		if b.config.Order == Shuffled {
			at = int(order.at(uint64(at)))
		}
		padded{b.e}.Fill(int(b.order[begin+at]), r)
	}
	return rows.arrays
}

// Shares returns the number of batches per epoch of each length.
func (b *Buckets) Shares() []int {
	var list []int
	for k := range b.config.Lengths {
		list = append(list, b.first[k+1]-b.first[k])
	}
	return list
}

// Facts returns the facts that the batches depend on.
func (b *Buckets) Facts() []Fact {
	return []Fact{
		{"data", fmt.Sprintf("%d examples in buckets of %v, hash %016x", b.e.Len(), b.config.Lengths,
			hashExamples(b.e))},
		{"batch", strconv.Itoa(b.config.Batch)},
		{"seq", strconv.Itoa(b.config.Lengths[len(b.config.Lengths)-1])}, orderFact(b.config.Order, b.config.Seed)}
}
