package data

import (
	"fmt"
	"hash/fnv"
	"strconv"
)

// Fact is one thing that makes a run what it is, such as its batch size. Checkpoints keep the facts of their run, so that nobody
// goes on from one by mistake with other data or another seed.
type Fact struct{ Name, Value string }

// String is shuffled or sequential.
func (o Order) String() string {
	if o == Sequential {
		return "sequential"
	}
	return "shuffled"
}

// orderFact is how samples follow each other.
func orderFact(o Order, seed uint64) Fact {
	if o == Sequential {
		return Fact{"order", o.String()}
	}
	return Fact{"order", fmt.Sprintf("%v, seed %d", o, seed)}
}

// Facts is what the sampler's batches depend on.
func (s *Sampler) Facts() []Fact {
	h := fnv.New64a()
	var b [4]byte
	for _, id := range s.ids {
		b[0], b[1], b[2], b[3] = byte(id), byte(id>>8), byte(id>>16), byte(id>>24)
		h.Write(b[:])
	}
	return []Fact{
		{"data", fmt.Sprintf("%d tokens, hash %016x", len(s.ids), h.Sum64())},
		{"batch", strconv.Itoa(s.config.Batch)}, {"seq", strconv.Itoa(s.config.Seq)}, orderFact(s.config.Order, s.config.Seed),
	}
}

// Facts is what the loader's batches depend on.
func (l *TokenLoader) Facts() []Fact { return l.sampler.Facts() }

// Facts is what the loader's batches depend on. Of the data it looks at the first, the middle and the last sample.
func (l *Loader) Facts() []Fact {
	n := l.data.Len()
	h := fnv.New64a()
	for _, i := range []int{0, n / 2, n - 1} {
		for _, a := range l.data.Sample(i) {
			fmt.Fprint(h, a.DType(), a.Shape())
			h.Write(a.Bytes())
		}
	}
	return []Fact{
		{"data", fmt.Sprintf("%d samples, hash %016x", n, h.Sum64())}, {"batch", strconv.Itoa(l.config.Batch)},
		orderFact(l.config.Order, l.config.Seed),
	}
}
