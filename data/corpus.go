package data

import "sort"

// Corpus is a list of documents as tokens, also readable as one sequence. It may be read concurrently.
type Corpus struct {
	tokens TokenSource
	// at has the offset of each document in tokens, begins that in the sequence, and then its end.
	at, begins []int64
}

// NewCorpus returns a corpus of documents in memory, which it does not copy.
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

// CorpusOf returns a corpus of the documents of shards, in their order.
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

// JoinCorpora returns a corpus of the documents of several corpora, one corpus after the other.
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

// add appends a document at an offset of tokens.
func (c *Corpus) add(at int64, size int) {
	c.at = append(c.at, at)
	c.begins = append(c.begins, c.begins[len(c.begins)-1]+int64(size))
}

// Documents returns the number of documents.
func (c *Corpus) Documents() int { return len(c.at) }

// DocumentLen returns the number of tokens of document i.
func (c *Corpus) DocumentLen(i int) int { return int(c.begins[i+1] - c.begins[i]) }

// ReadDocument fills ids with the tokens of document i, starting at token from.
func (c *Corpus) ReadDocument(i int, ids []int32, from int) { c.tokens.Read(ids, int(c.at[i])+from) }

// Len returns the number of tokens of all documents.
func (c *Corpus) Len() int { return int(c.begins[len(c.begins)-1]) }

// Read fills ids with tokens of the sequence from token at on, across documents.
func (c *Corpus) Read(ids []int32, at int) {
	d := sort.Search(len(c.at), func(i int) bool { return c.begins[i+1] > int64(at) })
	for len(ids) > 0 {
		from := at - int(c.begins[d])
		n := min(len(ids), c.DocumentLen(d)-from)
		c.ReadDocument(d, ids[:n], from)
		ids, at, d = ids[n:], at+n, d+1
	}
}

// Split holds out a share of the documents, chosen by the seed: at least one if there are two and the share
// is not 0, and never all. Both parts keep the order of the documents.
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

// none returns a corpus of the same tokens without documents.
func (c *Corpus) none() *Corpus { return &Corpus{tokens: c.tokens, begins: []int64{0}} }
