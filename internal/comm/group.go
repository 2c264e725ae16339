package comm

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
)

// Group is an ordered list of ranks, as one of its members sees it. All members must name the same ranks in
// the same order; their n-th calls on the group then belong together, and so do those on any other Group of
// the same list.
//
// Every collective has a blocking method and a Start method that returns a Pending. A zero dst means that the
// result gets new memory; otherwise the result is written to dst, which must have its type.
type Group struct {
	comm  Comm
	ranks []int
	pos   int
	key   string
}

// NewGroup makes a group for implementations of Comm; others call Comm.Group.
func NewGroup(c Comm, ranks []int) (*Group, error) {
	if ranks == nil {
		ranks = make([]int, c.Size())
		for i := range ranks {
			ranks[i] = i
		}
	}
	seen := make([]bool, c.Size())
	for _, r := range ranks {
		if r < 0 || r >= c.Size() {
			return nil, fmt.Errorf("group %v: rank %d: want ranks below %d", ranks, r, c.Size())
		}
		if seen[r] {
			return nil, fmt.Errorf("group %v: rank %d comes twice", ranks, r)
		}
		seen[r] = true
	}
	pos := slices.Index(ranks, c.ID())
	if pos < 0 {
		return nil, fmt.Errorf("group %v: rank %d is not a member", ranks, c.ID())
	}
	return &Group{comm: c, ranks: slices.Clone(ranks), pos: pos, key: fmt.Sprint(ranks)}, nil
}

// RemoteGroup returns a group as seen by a member in another process. Its calls are parsed from notes.
func RemoteGroup(ranks []int, pos int) *Group {
	return &Group{ranks: ranks, pos: pos, key: fmt.Sprint(ranks)}
}

// Ranks returns the members in group order; the caller must not change the slice.
func (g *Group) Ranks() []int { return g.ranks }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.ranks) }

// Pos returns the caller's position in the group.
func (g *Group) Pos() int { return g.pos }

// String prints the ranks: [0 2 4].
func (g *Group) String() string { return g.key }

// AllReduce combines the members' arrays, which have one type, element by element; every member gets the
// result. dst may be x.
func (g *Group) AllReduce(dst, x array.Array, by Reduce) (array.Array, error) {
	return g.StartAllReduce(dst, x, by).Wait()
}

// AllGather joins the members' arrays along dim in group order; every member gets the result. Their sizes
// along dim may differ and may be 0.
func (g *Group) AllGather(dst, x array.Array, dim int) (array.Array, error) {
	return g.StartAllGather(dst, x, dim).Wait()
}

// ReduceScatter combines the members' arrays, which have one type, and cuts the result along dim: the member
// at position p gets sizes[p] of it. Nil sizes mean equal parts.
func (g *Group) ReduceScatter(dst, x array.Array, by Reduce, dim int, sizes []int) (array.Array, error) {
	return g.StartReduceScatter(dst, x, by, dim, sizes).Wait()
}

// AllToAll splits x along dim split, sends part p to the member at position p and joins the received parts
// along dim concat, in group order. Nil sizes mean equal parts. If split and concat differ, all members must
// pass the same sizes, and their arrays may differ in size along concat.
func (g *Group) AllToAll(dst, x array.Array, split int, sizes []int, concat int) (array.Array, error) {
	return g.StartAllToAll(dst, x, split, sizes, concat).Wait()
}

// AllToAllV sends the next rows[p] rows of x to the member at position p, for each p, and joins the received
// rows in group order; the second result is the number received from each member. dst may have more rows than
// are received: the result is then its first rows.
func (g *Group) AllToAllV(dst, x array.Array, rows []int) (array.Array, []int, error) {
	p := g.StartAllToAllV(dst, x, rows)
	counts, err := p.Counts()
	return p.result.Array, counts, err
}

// Broadcast gives every member the root's x; the x of other members is ignored. With a zero dst, the root's
// result is x itself. The root's dst may be x.
func (g *Group) Broadcast(dst, x array.Array, root int) (array.Array, error) {
	return g.StartBroadcast(dst, x, root).Wait()
}

// Permute sends x along the pairs, which are the same on all members. Each position is a source and a target
// at most once; a member that is no target gets zeros of its x's type. Shapes may differ: a result has its
// source's.
func (g *Group) Permute(dst, x array.Array, pairs []Pair) (array.Array, error) {
	return g.StartPermute(dst, x, pairs).Wait()
}

// Gather joins the members' arrays along dim in group order on the root; the others get the zero Array.
func (g *Group) Gather(dst, x array.Array, dim, root int) (array.Array, error) {
	return g.StartGather(dst, x, dim, root).Wait()
}

// Scatter splits the root's x along dim and gives part p, of sizes[p], to the member at position p; x and
// sizes of other members are ignored. Nil sizes mean equal parts.
func (g *Group) Scatter(dst, x array.Array, dim int, sizes []int, root int) (array.Array, error) {
	return g.StartScatter(dst, x, dim, sizes, root).Wait()
}

// Send sends x to the member at position to, and returns when it has been received. Messages from one member
// to another with the same tag arrive in order.
func (g *Group) Send(x array.Array, to, tag int) error {
	_, err := g.StartSend(x, to, tag).Wait()
	return err
}

// Recv receives from the member at position from into dst, which must have the type of the array sent.
func (g *Group) Recv(dst array.Array, from, tag int) (array.Array, error) {
	return g.StartRecv(dst, from, tag).Wait()
}

// Barrier returns when every member has called it.
func (g *Group) Barrier() error {
	_, err := g.StartBarrier().Wait()
	return err
}
