package commtest

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
)

func groupChecks() []check {
	return []check{
		{"groups", []int{4, 8}, groups},
		{"group_mistakes", []int{3}, groupMistakes},
		{"call_mistakes", []int{2}, callMistakes},
		{"overlap", []int{4, 8}, overlapping},
		{"traffic", []int{1, 2, 4}, traffic},
	}
}

// rowsAndColumns returns the rank's groups in a grid of two rows; the second lists its ranks backwards.
func rowsAndColumns(c comm.Comm) (row, column []int) {
	w := c.Size() / 2
	for i := range w {
		row = append(row, c.ID()/w*w+i)
	}
	return row, []int{c.ID()%w + w, c.ID() % w}
}

// groups reduces along rows and columns of a grid; the order is by group position, not by rank id.
func groups(c comm.Comm) error {
	row, column := rowsAndColumns(c)
	for _, ranks := range [][]int{row, column} {
		g, err := c.Group(ranks)
		if err != nil {
			return err
		}
		if g.Size() != len(ranks) || g.Ranks()[g.Pos()] != c.ID() || !slices.Equal(g.Ranks(), ranks) {
			return fmt.Errorf("group: got %v with position %d, want %v", g.Ranks(), g.Pos(), ranks)
		}
		xs := make([]array.Array, len(ranks))
		for i, r := range ranks {
			xs[i] = Input(array.F64, 3, r, r, 2)
		}
		got, err := g.AllGather(array.Array{}, xs[g.Pos()], 0)
		if err != nil {
			return err
		}
		if err := same(fmt.Sprint("group ", ranks), got, joined(0, xs)); err != nil {
			return err
		}
	}
	return nil
}

func groupMistakes(c comm.Comm) error {
	for _, ranks := range [][]int{{}, {0, 1, 3}, {0, 0, 1, 2}, {-1, 0, 1, 2}, {(c.ID() + 1) % 3}} {
		if g, err := c.Group(ranks); err == nil {
			return fmt.Errorf("group %v on rank %d: got %v, want an error", ranks, c.ID(), g)
		}
	}
	return nil
}

// callMistakes checks calls that are wrong by themselves: they fail at once, and the group stays usable.
func callMistakes(c comm.Comm) error {
	g := everyone(c)
	x, flags, none := array.New(array.F32, 3, 4), array.New(array.Bool, 2), array.Array{}
	wrong := map[string]*comm.Pending{
		"no operand":     g.StartAllReduce(none, none, comm.Sum),
		"sum of bool":    g.StartAllReduce(none, flags, comm.Sum),
		"any of floats":  g.StartAllReduce(none, x, comm.Any),
		"mean of ints":   g.StartAllReduce(none, array.New(array.I32, 2), comm.Mean),
		"dim":            g.StartAllGather(none, x, 2),
		"negative dim":   g.StartGather(none, x, -1, 0),
		"concat dim":     g.StartAllToAll(none, x, 1, nil, 5),
		"unequal parts":  g.StartReduceScatter(none, x, comm.Sum, 0, nil),
		"sizes":          g.StartReduceScatter(none, x, comm.Sum, 0, []int{1, 1}),
		"size count":     g.StartAllToAll(none, x, 0, []int{3}, 0),
		"negative size":  g.StartAllToAllV(none, x, []int{4, -1}),
		"root":           g.StartBroadcast(none, x, 2),
		"peer":           g.StartSend(x, -1, 0),
		"no destination": g.StartRecv(none, 0, 0),
		"pair":           g.StartPermute(none, x, []comm.Pair{{Source: 0, Target: 2}}),
		"target twice":   g.StartPermute(none, x, []comm.Pair{{Source: 0, Target: 1}, {Source: 1, Target: 1}}),
		"shared memory":  g.StartPermute(x, x, nil),
	}
	for name, p := range wrong {
		if _, err := p.Wait(); err == nil {
			return fmt.Errorf("%s: got no error", name)
		}
	}
	return g.Barrier()
}

// overlapping runs several collectives of two groups at the same time and waits for them in another order.
func overlapping(c comm.Comm) error {
	row, column := rowsAndColumns(c)
	r, err := c.Group(row)
	if err != nil {
		return err
	}
	col, err := c.Group(column)
	if err != nil {
		return err
	}
	x := Input(array.F32, 1, c.ID(), 100, 40)
	pending := []*comm.Pending{
		r.StartAllReduce(array.Array{}, x, comm.Sum),
		col.StartAllReduce(array.Array{}, x, comm.Max),
		r.StartAllGather(array.Array{}, x, 0),
		col.StartAllGather(array.Array{}, x, 1),
	}
	of := func(ranks []int) []array.Array {
		var xs []array.Array
		for _, rank := range ranks {
			xs = append(xs, Input(array.F32, 1, rank, 100, 40))
		}
		return xs
	}
	want := []array.Array{
		reduced(comm.Sum, of(row)), reduced(comm.Max, of(column)), joined(0, of(row)), joined(1, of(column)),
	}
	for i := range pending {
		k := (i + c.ID()) % len(pending)
		got, err := pending[k].Wait()
		if err != nil {
			return err
		}
		if err := same(fmt.Sprint("overlapping ", k), got, want[k]); err != nil {
			return err
		}
	}
	return nil
}

// traffic compares the measured traffic of ranks with what the planner predicts.
func traffic(c comm.Comm) error {
	g, k := everyone(c), int64(c.Size())
	x := array.New(array.F32, 8, 8)
	n := int64(len(x.Bytes()))
	before := c.Stats()
	for _, err := range []error{
		errOf(g.AllReduce(array.Array{}, x, comm.Sum)),
		errOf(g.AllGather(array.Array{}, x, 1)),
		errOf(g.ReduceScatter(array.Array{}, x, comm.Sum, 0, nil)),
		errOf(g.AllToAll(array.Array{}, x, 0, nil, 1)),
		errOf(g.Broadcast(array.Array{}, x, 0)),
		g.Barrier(),
	} {
		if err != nil {
			return err
		}
	}
	root := int64(1)
	if c.ID() > 0 {
		root = 0
	}
	want := map[comm.Kind]comm.Traffic{
		comm.AllReduce: {Calls: 1, Sent: 2 * (k - 1) * n / k, Received: 2 * (k - 1) * n / k},
		// (k-1)/k of the result, which has k*n
		comm.AllGather:     {Calls: 1, Sent: (k - 1) * n, Received: (k - 1) * n},
		comm.ReduceScatter: {Calls: 1, Sent: (k - 1) * n / k, Received: (k - 1) * n / k},
		comm.AllToAll:      {Calls: 1, Sent: (k - 1) * n / k, Received: (k - 1) * n / k},
		comm.Broadcast:     {Calls: 1, Sent: root * (k - 1) * n, Received: (1 - root) * n},
		comm.Barrier:       {Calls: 1},
	}
	got := c.Stats().Since(before)
	for _, kind := range comm.Kinds() {
		if got.Of(kind) != want[kind] {
			return fmt.Errorf("%v: traffic: got %+v, want %+v", kind, got.Of(kind), want[kind])
		}
	}
	return nil
}

func errOf(_ array.Array, err error) error { return err }
