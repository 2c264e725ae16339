package data

import "sort"

// Corpus is documents of tokens by number, and as one run of them, too. It may be read concurrently.
type Corpus struct {
	tokens TokenSource
	// at is where each document is in tokens, begins where in the run: one more than there are documents.
	at, begins []int64
}

// NewCorpus returns documents in memory, which it shares.
func NewCorpus(documents ...[]int32) *Corpus {
	sources := make([]TokenSource, len(documents))
	c := &Corpus{begins: []int64{0}}
	for i, d := range documents {
		sources[i] = InMemory(d)
		c.add(c.begins[i], len(d))
	}
	c.tokens = Join(sources...)
	return c
}

// CorpusOf returns the documents of shards, in their order.
func CorpusOf(shards []*Shard) *Corpus {
	sources := make([]TokenSource, len(shards))
	c := &Corpus{begins: []int64{0}}
	for i, s := range shards {
		sources[i] = s
		for d := range s.Documents() {
			c.add(c.begins[len(c.begins)-1], s.DocumentLen(d))
		}
	}
	c.tokens = Join(sources...)
	return c
}

// JoinCorpora returns the documents of several corpora, one corpus behind the other.
func JoinCorpora(corpora ...*Corpus) *Corpus {
	sources := make([]TokenSource, len(corpora))
	c := &Corpus{begins: []int64{0}}
	for i, one := range corpora {
		sources[i] = one
		for d := range one.Documents() {
			c.add(c.begins[len(c.begins)-1], one.DocumentLen(d))
		}
	}
	c.tokens = Join(sources...)
	return c
}

// add appends a document that is at a place of tokens.
func (c *Corpus) add(at int64, size int) {
	c.at = append(c.at, at)
	c.begins = append(c.begins, c.begins[len(c.begins)-1]+int64(size))
}

// Documents returns how many there are.
func (c *Corpus) Documents() int { return len(c.at) }

// DocumentLen returns the number of tokens of document i.
func (c *Corpus) DocumentLen(i int) int { return int(c.begins[i+1] - c.begins[i]) }

// ReadDocument fills ids with the tokens of document i from number from on.
func (c *Corpus) ReadDocument(i int, ids []int32, from int) { c.tokens.Read(ids, int(c.at[i])+from) }

// Len returns the number of tokens of all documents.
func (c *Corpus) Len() int { return int(c.begins[len(c.begins)-1]) }

// Read fills ids with tokens of the run, which may be those of several documents.
func (c *Corpus) Read(ids []int32, at int) {
	d := sort.Search(len(c.at), func(i int) bool { return c.begins[i+1] > int64(at) })
	for len(ids) > 0 {
		from := at - int(c.begins[d])
		n := min(len(ids), c.DocumentLen(d)-from)
		c.ReadDocument(d, ids[:n], from)
		ids, at, d = ids[n:], at+n, d+1
	}
}

// Split holds out a share of the documents, chosen by the seed: at least one where there are two and the
// share is not 0, and never all. Both parts keep the order of the documents.
func (c *Corpus) Split(held float64, seed uint64) (train, valid *Corpus, err error) {
	inHeld, err := heldOut(c.Documents(), held, seed)
	if err != nil {
		return nil, nil, err
	}
	train, valid = c.none(), c.none()
	for i := range c.Documents() {
		part := train
		if inHeld(i) {
			part = valid
		}
		part.add(c.at[i], c.DocumentLen(i))
	}
	return train, valid, nil
}

// none returns a corpus of the same tokens that has no document yet.
func (c *Corpus) none() *Corpus { return &Corpus{tokens: c.tokens, begins: []int64{0}} }
