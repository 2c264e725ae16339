package comm

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
)

// Traffic is the traffic of one rank in collectives of one kind.
type Traffic struct {
	Calls int64
	// Sent and Received are bytes between different ranks, for a direct exchange: in an all-gather a rank
	// receives all but its own part, in a reduce-scatter it sends all but its own part, and an all-reduce is the
	// two one after the other. Data that stays on a rank is not counted.
	Sent, Received int64
}

func (t Traffic) plus(u Traffic) Traffic {
	return Traffic{t.Calls + u.Calls, t.Sent + u.Sent, t.Received + u.Received}
}

// Stats is the traffic of one rank by kind.
type Stats struct{ kinds [len(kinds)]Traffic }

// Of returns the traffic of collectives of kind k.
func (s Stats) Of(k Kind) Traffic { return s.kinds[k] }

// Total returns the traffic of all kinds.
func (s Stats) Total() Traffic {
	var sum Traffic
	for _, t := range s.kinds {
		sum = sum.plus(t)
	}
	return sum
}

// Since returns the traffic after an earlier reading.
func (s Stats) Since(earlier Stats) Stats {
	for k, t := range earlier.kinds {
		s.kinds[k] = s.kinds[k].plus(Traffic{-t.Calls, -t.Sent, -t.Received})
	}
	return s
}

// Add counts one more call of kind k; implementations of Comm call it.
func (s *Stats) Add(k Kind, t Traffic) { s.kinds[k] = s.kinds[k].plus(t) }

// String prints one line for each kind that was called.
func (s Stats) String() string {
	var b strings.Builder
	for k, t := range s.kinds {
		if t.Calls > 0 {
			fmt.Fprintf(&b, "%v: %d calls, %d bytes sent, %d received\n", Kind(k), t.Calls, t.Sent, t.Received)
		}
	}
	return b.String()
}

// Traffic returns the traffic of the call, given its result.
func (c *Call) Traffic(result array.Array) Traffic {
	in, out, k := int64(len(c.In.Bytes())), int64(len(result.Bytes())), int64(c.Group.Size())
	t := Traffic{Calls: 1}
	switch c.Kind {
	case AllReduce:
		t.Sent = 2 * (k - 1) * in / k
		t.Received = t.Sent
	case AllGather:
		t.Sent, t.Received = (k-1)*in, out-in
	case ReduceScatter:
		t.Sent, t.Received = in-out, (k-1)*out
	case AllToAll, AllToAllV:
		own := c.ownBytes()
		t.Sent, t.Received = in-own, out-own
	case Permute:
		t.Sent, t.Received = c.permuted(in, out)
	case Send:
		t.Sent = in
	case Recv:
		t.Received = out
	case Broadcast, Gather, Scatter:
		t.Sent, t.Received = c.rooted(in, out, k)
	}
	return t
}

// ownBytes returns the bytes of In that the member keeps in an AllToAll.
func (c *Call) ownBytes() int64 {
	return int64(typeOf(c.In).with(c.Dim, c.Sizes[c.Group.pos]).bytes())
}

func (c *Call) permuted(in, out int64) (sent, received int64) {
	for _, p := range c.Pairs {
		if p.Source == p.Target {
			continue
		}
		if p.Source == c.Group.pos {
			sent = in
		}
		if p.Target == c.Group.pos {
			received = out
		}
	}
	return sent, received
}

func (c *Call) rooted(in, out, k int64) (sent, received int64) {
	root := c.Group.pos == c.Root
	switch {
	case c.Kind == Gather && root:
		return 0, out - in
	case c.Kind == Gather:
		return in, 0
	case c.Kind == Broadcast && root:
		return (k - 1) * in, 0
	case root:
		return in - out, 0
	}
	return 0, out
}
