package cpu

import "slices"

// spentBlock is the memory of a parameter that is not needed after the run: after the last node that reads
// it, values computed later can use it. So a backward pass frees activations as it goes and needs little
// memory of its own, as if it were one program with the forward pass.
type spentBlock struct {
	param *place
	laid  []*place // by offset
}

// spentBlocks are those of a program, the smallest first.
type spentBlocks []*spentBlock

func (p *planner) spentBlocks() spentBlocks {
	var list spentBlocks
	for _, i := range p.spent {
		at := p.places[p.f.Params()[i].ID()]
		if at.home == homeParam && at.last < len(p.f.Nodes()) {
			list = append(list, &spentBlock{param: at})
		}
	}
	slices.SortStableFunc(list, func(a, b *spentBlock) int { return a.param.bytes - b.param.bytes })
	return list
}

// put assigns a value memory in the smallest block with a free range.
func (list spentBlocks) put(at *place) bool {
	for _, b := range list {
		if at.first <= b.param.last {
			continue
		}
		offset := gap(b.laid, at)
		if offset+at.bytes > b.param.bytes {
			continue
		}
		at.home, at.index, at.offset = homeSpent, b.param.index, offset
		b.laid = lay(b.laid, at)
		return true
	}
	return false
}
