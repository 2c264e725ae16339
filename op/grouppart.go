package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// groupPart is a device's shard of rows in groups: rows of them starting at row, of total, and experts of the
// groups starting at expert.
type groupPart struct {
	part                              bool
	row, total, expert, rows, experts int
}

// newGroupPart completes a shard: one that is not split has all rows.
func newGroupPart(p groupPart) groupPart {
	if !p.part {
		p.row, p.total, p.expert = 0, p.rows, 0
	}
	return p
}

// fits reports whether the shard is within the given number of groups.
func (p groupPart) fits(groups int) bool {
	if !p.part {
		return p.experts == groups
	}
	return p.row >= 0 && p.row+p.rows <= p.total && p.expert >= 0 && p.expert+p.experts <= groups
}

// at returns a shard of the shard.
func (p groupPart) at(rows, experts mesh.Range) groupPart {
	p.row, p.rows = p.row+rows.Start, rows.Size
	p.expert, p.experts = p.expert+experts.Start, experts.Size
	return p
}

// span is a range of rows from start to before end, relative to a shard.
type span struct{ start, end int }

// spans returns the rows of each group of the shard. It panics with an *IndexError if the groups have more
// rows than there are.
func (p groupPart) spans(o Op, sizes array.Array) []span {
	here := func(row int) int { return max(0, min(row-p.row, p.rows)) }
	spans, end := make([]span, 0, p.experts), 0
	for e, n := range readIndices(o, sizes, p.total+1) {
		start := end
		if end += n; end > p.total {
			panic(&IndexError{Op: o.Name(), Index: end, Limit: p.total + 1})
		}
		if p.expert <= e && e < p.expert+p.experts {
			spans = append(spans, span{here(start), here(end)})
		}
	}
	return spans
}

// clearBetween clears the rows of y, n elements each, that belong to no group.
func clearBetween[T floats](y []T, spans []span, n int) {
	if len(spans) == 0 {
		clear(y)
		return
	}
	clear(y[:spans[0].start*n])
	clear(y[spans[len(spans)-1].end*n:])
}
