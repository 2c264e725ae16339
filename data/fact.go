package data

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
)

// Fact is a named property that identifies a run, such as its batch size. Checkpoints store the facts of
// their run, so that a run is not resumed by mistake with other data or another seed.
type Fact struct{ Name, Value string }

// String returns shuffled or sequential.
func (o Order) String() string {
	if o == Sequential {
		return "sequential"
	}
	return "shuffled"
}

// orderFact returns the fact of the order of samples.
func orderFact(o Order, seed uint64) Fact {
	if o == Sequential {
		return Fact{"order", o.String()}
	}
	return Fact{"order", fmt.Sprintf("%v, seed %d", o, seed)}
}

// Facts returns the facts that the sampler's batches depend on.
func (s *Sampler) Facts() []Fact {
	return []Fact{
		{"data", fmt.Sprintf("%d tokens, hash %016x", s.tokens.Len(), hashTokens(s.tokens))},
		{"batch", strconv.Itoa(s.config.Batch)}, {"seq", strconv.Itoa(s.config.Seq)},
		orderFact(s.config.Order, s.config.Seed),
	}
}

// A hash reads blocks of hashBlock tokens: all of them, or hashBlocks evenly spaced ones of a longer source.
const (
	hashBlock  = 1 << 16
	hashBlocks = 1 << 10
)

func hashTokens(t TokenSource) uint64 {
	h := fnv.New64a()
	b := make([]byte, 4*hashBlock)
	blocks(t, func(ids []int32) {
		for k, id := range ids {
			binary.LittleEndian.PutUint32(b[4*k:], uint32(id))
		}
		h.Write(b[:4*len(ids)])
	})
	return h.Sum64()
}

// blocks calls each with the blocks of tokens that a hash reads.
func blocks(t TokenSource, each func(ids []int32)) {
	n := (t.Len() + hashBlock - 1) / hashBlock
	ids := make([]int32, hashBlock)
	for i := range min(n, hashBlocks) {
		at := i * hashBlock
		if n > hashBlocks {
			at = i * (n / hashBlocks) * hashBlock
		}
		block := ids[:min(hashBlock, t.Len()-at)]
		t.Read(block, at)
		each(block)
	}
}

// Facts returns the facts that the loader's batches depend on.
func (l *TokenLoader) Facts() []Fact { return l.sampler.Facts() }

// Facts returns the facts that the loader's batches depend on. Its hash reads the first, the middle and the
// last sample.
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

// HashExamples returns the value of a fact of examples: their number, and a hash of some of them.
func HashExamples(e Examples) string {
	return fmt.Sprintf("%d examples, hash %016x", e.Len(), hashExamples(e))
}

// hashExamples returns a hash of all examples, or of hashBlocks evenly spaced ones.
func hashExamples(e Examples) uint64 {
	h := fnv.New64a()
	n := e.Len()
	for k := range min(n, hashBlocks) {
		i := k
		if n > hashBlocks {
			i = k * (n / hashBlocks)
		}
		ids := make([]int32, 2*e.Size(i))
		e.Fill(i, ids[:len(ids)/2], ids[len(ids)/2:])
		for _, id := range ids {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(id))
			h.Write(b[:])
		}
	}
	return h.Sum64()
}
