package op

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// mapCols is the number of columns of a loop without folds that are computed at once: longer rows are split,
// and each piece is a leaf of a total sum.
const mapCols = kernel.SumBlock

// columnRows is the number of rows that a column sum adds up before it is added to the total, as in
// kernel.AddRows.
const columnRows = 256

// loopPart is a loop over some of the columns. Splitting rows into columns makes more rows.
type loopPart struct {
	rows, cols int
	first      int // number of rows in the parts before it
	streams    []rowWalk
	stores     []rowWalk
}

// loopStore is a write of a loop to a result: of a value of its own, or of an unchanged stream.
type loopStore struct {
	result int
	from   operand
	walk   rowWalk
	moved  bool // the result is not the value itself, but contains it
}

// stores returns the writes of results, except for column sums.
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

// movedStores returns where the operands of a walk or a join are in its result.
func (p *LoopPlan) movedStores(result int, v *ir.Value) []loopStore {
	var list []loopStore
	for i, ln := range p.nodes {
		if ln.node.Out()[0] != v {
			continue
		}
		for k, w := range ln.loop.Writes {
			rows, _ := w.inRows(p.Cols) // add has checked that the rows fit
			list = append(list, loopStore{result: result, from: p.in[i][k], walk: rows, moved: true})
		}
	}
	return list
}

// parts splits the loop into parts.
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

// cut returns the columns from lo on, times·cols of them.
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
