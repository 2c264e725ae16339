package bench

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/op"
)

// profile adds up the time of each op.
type profile map[string]*OpTime

// observer returns the function that a trainer calls for each op; nil if it was not requested.
func (p profile) observer(asked bool) func(n *galley.Node, took time.Duration) {
	if !asked {
		return nil
	}
	return func(n *galley.Node, took time.Duration) {
		name := op.Label(n.Op())
		o := p[name]
		if o == nil {
			o = &OpTime{Op: name}
			p[name] = o
		}
		o.Calls++
		o.MS += float64(took) / float64(time.Millisecond)
	}
}

// sorted returns the ops by their time, the longest first.
func (p profile) sorted() []OpTime {
	total := 0.0
	var out []OpTime
	for _, name := range slices.Sorted(maps.Keys(p)) {
		out = append(out, *p[name])
		total += p[name].MS
	}
	for i := range out {
		out[i].Share = out[i].MS / total
	}
	slices.SortStableFunc(out, func(a, b OpTime) int { return cmp.Compare(b.MS, a.MS) })
	return out
}
