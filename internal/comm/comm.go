package comm

import "github.com/galley-ml/galley/array"

// Comm is one rank's connection to a world, valid for one run. Every implementation must pass commtest.Run. A
// Comm is used by one goroutine: calls are matched with those of its peers by their order.
type Comm interface {
	// ID returns the rank's index in the world.
	ID() int
	// Size returns the number of ranks in the world.
	Size() int
	// Group returns the group of the given ranks in the given order; nil means all ranks of the world in their
	// order. The calling rank must be a member.
	Group(ranks []int) (*Group, error)
	// Start begins a collective that has passed Call.Check and returns at once.
	Start(c *Call) *Pending
	// Stats returns the traffic of the rank so far.
	Stats() Stats
}

// Result is the result of a collective on one member.
type Result struct {
	// Array is the member's result; the zero Array if the collective gives it none.
	Array array.Array
	// Counts is the size of each member's part of Array, along the dim in which the parts are joined; nil if
	// parts are not joined.
	Counts []int
}

// Pending is a collective that has been started. Until Wait returns, its input and destination must not be
// used: peers may still read the input and write the destination.
type Pending struct {
	wait   func() (Result, error)
	result Result
	err    error
}

// NewPending makes a Pending for implementations of Comm; wait is called at most once.
func NewPending(wait func() (Result, error)) *Pending { return &Pending{wait: wait} }

// Failed returns a Pending that fails with err: the collective was never started.
func Failed(err error) *Pending { return &Pending{err: err} }

// Wait waits until no peer uses the member's arrays and returns the result. Later calls return the same.
func (p *Pending) Wait() (array.Array, error) {
	if p.wait != nil {
		p.result, p.err = p.wait()
		p.wait = nil
	}
	return p.result.Array, p.err
}

// Counts waits and returns the size of each member's part of the result along the dim in which parts are
// joined: rows for AllToAllV, shard sizes for AllGather and AllToAll.
func (p *Pending) Counts() ([]int, error) {
	_, err := p.Wait()
	return p.result.Counts, err
}
