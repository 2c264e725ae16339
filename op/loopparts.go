package op

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// mapCols is how many columns of a loop without folds are gone through at once: longer rows are cut, and each
// piece is a leaf of a sum of all.
const mapCols = kernel.SumBlock

// columnRows is how many rows one sum of columns adds up before it joins the total, as kernel.AddRows has it.
const columnRows = 256

// loopPart is a loop over some of the columns. Cutting rows makes more of them.
type loopPart struct {
	rows, cols int
	first      int // how many rows there are in the parts before it
	streams    []rowWalk
	stores     []rowWalk
}

// loopStore is what a loop writes: a value of its own, or a stream as it is, to a result.
type loopStore struct {
	result int
	from   operand
	walk   rowWalk
	moved  bool // the result is not the value itself, but has it somewhere
}

// stores returns what is written for results, but for sums of columns.
func (p *LoopPlan) stores(results []*ir.Value) []loopStore {
	var list []loopStore
	for i, v := range results {
		switch p.level[v] {
		case perElem:
			w := rowWalk{dims: mergedDims([]walkDim{{p.Rows, p.Cols}}), step: 1}
			list = append(list, loopStore{result: i, from: operand{value: v}, walk: w})
		case perRow:
			w := rowWalk{dims: mergedDims([]walkDim{{p.Rows, 1}})}
			list = append(list, loopStore{result: i, from: operand{value: v}, walk: w})
		case atPlace:
			list = append(list, p.movedStores(i, v)...)
		}
	}
	return list
}

// movedStores returns the places of the operands of a walk or a join in its result.
func (p *LoopPlan) movedStores(result int, v *ir.Value) []loopStore {
	var list []loopStore
	for i, ln := range p.nodes {
		if ln.node.Out()[0] != v {
			continue
		}
		for k, w := range ln.loop.Writes {
			rows, _ := w.inRows(p.Cols) // add has seen that the rows fit
			list = append(list, loopStore{result: result, from: p.in[i][k], walk: rows, moved: true})
		}
	}
	return list
}

// parts cuts the loop.
func (p *LoopPlan) parts(stores []loopStore) []loopPart {
	whole := loopPart{rows: p.Rows, cols: p.Cols}
	for _, s := range p.streams {
		whole.streams = append(whole.streams, s.rowWalk)
	}
	onceARow := false
	for _, s := range stores {
		whole.stores = append(whole.stores, s.walk)
		onceARow = onceARow || s.walk.step == 0
	}
	if p.folds || onceARow || p.Cols <= mapCols {
		return []loopPart{whole}
	}
	times, rest := p.Cols/mapCols, p.Cols%mapCols
	parts := []loopPart{whole.cut(0, times, mapCols)}
	if rest > 0 {
		parts = append(parts, whole.cut(times*mapCols, 1, rest))
		parts[1].first = parts[0].rows
	}
	return parts
}

// cut returns the columns from lo on, so many times cols of them.
func (l loopPart) cut(lo, times, cols int) loopPart {
	piece := loopPart{rows: l.rows * times, cols: cols}
	for _, w := range l.streams {
		piece.streams = append(piece.streams, w.cut(l.rows, lo, times, cols))
	}
	for _, w := range l.stores {
		piece.stores = append(piece.stores, w.cut(l.rows, lo, times, cols))
	}
	return piece
}
