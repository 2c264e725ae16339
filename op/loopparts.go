package op

import "github.com/galley-ml/galley/internal/ir"

// mapCols is how many columns of a loop without folds are gone through at once: longer rows are cut.
const mapCols = 1 << 12

// columnRows is how many rows one sum of columns adds up before it joins the total, as kernel.AddRows has it.
const columnRows = 256

// loopPart is a loop over some of the columns. Cutting rows makes more of them.
type loopPart struct {
	rows, cols int
	streams    []rowWalk
	results    []rowWalk
}

// parts cuts the loop for results of these levels.
func (p *LoopPlan) parts(results []*ir.Value) []loopPart {
	whole := loopPart{rows: p.Rows, cols: p.Cols}
	for _, s := range p.streams {
		whole.streams = append(whole.streams, s.rowWalk)
	}
	onceARow := false
	for _, v := range results {
		w := rowWalk{dims: mergedDims([]walkDim{{p.Rows, p.Cols}}), step: 1}
		if p.level[v] == perRow {
			w, onceARow = rowWalk{dims: mergedDims([]walkDim{{p.Rows, 1}})}, true
		}
		whole.results = append(whole.results, w)
	}
	if p.folds || onceARow || p.Cols <= mapCols {
		return []loopPart{whole}
	}
	times, rest := p.Cols/mapCols, p.Cols%mapCols
	parts := []loopPart{whole.cut(0, times, mapCols)}
	if rest > 0 {
		parts = append(parts, whole.cut(times*mapCols, 1, rest))
	}
	return parts
}

// cut is the columns from lo on, so many times cols of them.
func (l loopPart) cut(lo, times, cols int) loopPart {
	piece := loopPart{rows: l.rows * times, cols: cols}
	for _, w := range l.streams {
		piece.streams = append(piece.streams, w.cut(l.rows, lo, times, cols))
	}
	for _, w := range l.results {
		piece.results = append(piece.results, w.cut(l.rows, lo, times, cols))
	}
	return piece
}
