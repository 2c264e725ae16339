package engine

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"

	"github.com/galley-ml/galley/internal/paged"
)

const pageTokens = paged.PageTokens

// blockHash is the hash of a page's tokens and all before them. It is long enough that two are never equal by
// chance: a wrong page would give a wrong answer.
type blockHash [sha256.Size]byte

// rootHash returns the hash of the empty sequence.
func rootHash(salt string) blockHash { return sha256.Sum256([]byte(salt)) }

func (h blockHash) next(tokens []int32) blockHash {
	buf := make([]byte, 0, len(h)+4*pageTokens)
	buf = append(buf, h[:]...)
	for _, id := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(id))
	}
	return sha256.Sum256(buf)
}

// pages allocates pages. A full page is never written again, so sequences may share it. An unused one can be
// found by its hash until its memory is needed: the least recently used is taken first.
type pages struct {
	all    []page
	free   []int32
	unused *list.List // pages with a hash and no users, the least recently used first
	byHash map[blockHash]int32
}

type page struct {
	refs  int
	hash  blockHash
	known bool
	spare *list.Element // its element in unused
}

func newPages(n int) *pages {
	p := &pages{all: make([]page, n), unused: list.New(), byHash: map[blockHash]int32{}}
	for i := n - 1; i >= 0; i-- {
		p.free = append(p.free, int32(i))
	}
	return p
}

// available returns the number of pages that can be allocated.
func (p *pages) available() int { return len(p.free) + p.unused.Len() }

// used returns the number of pages that sequences hold.
func (p *pages) used() int { return len(p.all) - p.available() }

// take returns a page that is not in use.
func (p *pages) take() (int32, bool) {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.all[i].refs = 1
		return i, true
	}
	e := p.unused.Front()
	if e == nil {
		return 0, false
	}
	i := e.Value.(int32)
	p.unused.Remove(e)
	delete(p.byHash, p.all[i].hash)
	p.all[i] = page{refs: 1}
	return i, true
}

// find returns the page with a hash and increments its reference count.
func (p *pages) find(h blockHash) (int32, bool) {
	i, ok := p.byHash[h]
	if !ok {
		return 0, false
	}
	pg := &p.all[i]
	if pg.refs == 0 {
		p.unused.Remove(pg.spare)
		pg.spare = nil
	}
	pg.refs++
	return i, true
}

// publish makes a full page findable by its hash, unless another page has that hash.
func (p *pages) publish(i int32, h blockHash) {
	if _, ok := p.byHash[h]; ok || p.all[i].known {
		return
	}
	p.byHash[h] = i
	p.all[i].hash, p.all[i].known = h, true
}

// release frees pages, the last first: the first pages of a sequence are the likeliest to be shared.
func (p *pages) release(table []int32) {
	for k := len(table) - 1; k >= 0; k-- {
		i := table[k]
		pg := &p.all[i]
		if pg.refs--; pg.refs > 0 {
			continue
		}
		if pg.known {
			pg.spare = p.unused.PushBack(i)
			continue
		}
		p.free = append(p.free, i)
	}
}
