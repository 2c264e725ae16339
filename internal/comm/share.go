package comm

import (
	"context"
	"slices"

	"github.com/galley-ml/galley/array"
)

// Part is an array that one rank holds.
type Part struct {
	Rank  int
	DType array.DType
	Shape array.Shape
	// To is the processes that receive it; nil means all. The process of the rank has it already.
	To []int
}

// goes reports whether the part is sent to a process that does not hold it.
func (p Part) goes(process int) bool { return p.To == nil || slices.Contains(p.To, process) }

// Share sends parts to the processes listed in them; held are the arrays of parts in this process, by index
// in parts. It is a collective of processes: all call it with the same list. With one process nothing is
// sent.
func Share(ctx context.Context, w World, parts []Part, held map[int]array.Array) (map[int]array.Array,
	error) {
	leaders := Leaders(w)
	all := make(map[int]array.Array, len(parts))
	for i, p := range parts {
		switch {
		case IsLocal(w, p.Rank):
			all[i] = held[i]
		case p.goes(w.Process()):
			all[i] = array.New(p.DType, p.Shape...)
		}
	}
	if len(leaders) < 2 {
		return all, nil
	}
	return all, w.Run(ctx, func(_ context.Context, c Comm) error { return share(c, w, leaders, parts, all) })
}

// share sends what the rank holds to the leaders of the other processes, and receives what they hold if it is
// its process's leader.
func share(c Comm, w World, leaders []int, parts []Part, all map[int]array.Array) error {
	world, err := c.Group(nil)
	if err != nil {
		return err
	}
	var pending []*Pending
	for i, p := range parts {
		for _, leader := range leaders {
			switch {
			case w.Owner(leader) == w.Owner(p.Rank) || !p.goes(w.Owner(leader)):
			case c.ID() == p.Rank:
				pending = append(pending, world.StartSend(all[i], leader, i))
			case c.ID() == leader:
				pending = append(pending, world.StartRecv(all[i], p.Rank, i))
			}
		}
	}
	for _, p := range pending {
		if _, err := p.Wait(); err != nil {
			return err
		}
	}
	return nil
}
