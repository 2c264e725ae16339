package comm

import "github.com/galley-ml/galley/array"

// Comm is one rank's end of a world, for the time of one run. Whatever passes commtest.Run is one.
// A Comm is driven by one goroutine: the order of its calls is what matches them with those of its peers.
type Comm interface {
	// ID returns the rank's index in the world.
	ID() int
	// Size returns the number of ranks in the world.
	Size() int
	// Group returns the group of the given ranks in the given order; nil means all ranks of the world in
	// theirs. The rank must be a member.
	Group(ranks []int) (*Group, error)
	// Start begins a collective that has passed Call.Check and returns at once.
	Start(c *Call) *Pending
	// Stats returns what the rank has moved so far.
	Stats() Stats
}

// Result is what a collective leaves on one member.
type Result struct {
	// Array is the member's result; the zero Array where it gets none.
	Array array.Array
	// Counts is how much of Array came from each member, along the dim in which their parts are joined; nil
	// where parts are not joined.
	Counts []int
}

// Pending is a collective that has been started. Until Wait returns, the arrays given to it belong to it:
// peers may still read the one and write the other.
type Pending struct {
	wait   func() (Result, error)
	result Result
	err    error
}

// NewPending makes a Pending for implementations of Comm; wait is called at most once.
func NewPending(wait func() (Result, error)) *Pending { return &Pending{wait: wait} }

// Failed returns a collective that never began.
func Failed(err error) *Pending { return &Pending{err: err} }

// Wait returns the member's result once no peer needs its arrays any more. Later calls return the same.
func (p *Pending) Wait() (array.Array, error) {
	if p.wait != nil {
		p.result, p.err = p.wait()
		p.wait = nil
	}
	return p.result.Array, p.err
}

// Counts waits and says how much of the result came from each member, along the dim in which parts are
// joined: rows for AllToAllV, sizes of the shards for AllGather and AllToAll.
func (p *Pending) Counts() ([]int, error) {
	_, err := p.Wait()
	return p.result.Counts, err
}
