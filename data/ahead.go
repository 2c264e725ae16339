package data

import (
	"errors"
	"sync"
	"time"

	"github.com/galley-ml/galley/array"
)

// AheadConfig configures an Ahead.
type AheadConfig struct {
	// First is the index of the first batch, Count the number of batches.
	First, Count int
	// Depth is the number of batches to prepare in advance; 0 means 2, negative means none.
	Depth int
}

// Ahead prepares batches in another goroutine, so that data loading overlaps with computation.
type Ahead struct {
	make func(i int) ([]array.Array, error)
	next int
	c    AheadConfig
	// made holds the prepared batches; nil if none are prepared in advance.
	made chan aheadBatch
	done chan struct{}
	end  sync.Once
	busy sync.Mutex
	wait sync.WaitGroup
}

type aheadBatch struct {
	batch []array.Array
	err   error
	panic any
}

// NewAhead starts preparing batches. Close stops it.
func NewAhead(batch func(i int) ([]array.Array, error), c AheadConfig) *Ahead {
	a := &Ahead{make: batch, next: c.First, c: c, done: make(chan struct{})}
	if c.Depth == 0 {
		c.Depth = 2
	}
	if c.Depth > 0 {
		a.made = make(chan aheadBatch, c.Depth-1) // the goroutine holds one more
		a.wait.Go(a.run)
	}
	return a
}

// run prepares batches until one fails.
func (a *Ahead) run() {
	defer close(a.made)
	for i := range a.c.Count {
		select {
		case <-a.done:
			return
		default:
		}
		b := a.one(a.c.First + i)
		select {
		case a.made <- b:
		case <-a.done:
			return
		}
		if b.err != nil || b.panic != nil {
			return
		}
	}
}

// one makes a batch. A panic of the dataset is recovered and kept, for the caller of Next.
func (a *Ahead) one(i int) (b aheadBatch) {
	a.busy.Lock()
	defer a.busy.Unlock()
	defer func() { b.panic = recover() }()
	b.batch, b.err = a.make(i)
	return b
}

// Next returns the next batch, and how long the caller waited for it.
func (a *Ahead) Next() (batch []array.Array, waited time.Duration, err error) {
	start := time.Now()
	if a.made == nil {
		batch, err = a.make(a.next)
		a.next++
		return batch, time.Since(start), err
	}
	b, ok := <-a.made
	if !ok {
		return nil, 0, errors.New("no more batches")
	}
	if b.panic != nil {
		panic(b.panic)
	}
	return b.batch, time.Since(start), b.err
}

// Alone runs f while no batch is being prepared, so that f may read the same data.
func (a *Ahead) Alone(f func()) {
	a.busy.Lock()
	defer a.busy.Unlock()
	f()
}

// Close stops the goroutine and waits for it.
func (a *Ahead) Close() {
	a.end.Do(func() { close(a.done) })
	a.wait.Wait()
}
