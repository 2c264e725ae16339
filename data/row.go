package data

import (
	"fmt"

	"github.com/galley-ml/galley/array"
)

// Row is a row of a batch, seq tokens long.
type Row struct {
	IDs, Labels []int32
	// Segments number the examples of a row from 1 on, 0 is padding; Positions count from 0 in each. Both are
	// nil if rows have one example each.
	Segments, Positions []int32
}

// RowSource is a source of training rows by index.
type RowSource interface {
	Len() int
	// Fill writes row i.
	Fill(i int, r Row)
}

// Windows returns a sequence of tokens as rows of seq tokens, with the next tokens as labels, as a Sampler
// does: tokens at the end that do not fill a row are left out.
func Windows(tokens TokenSource, seq int) (RowSource, error) {
	if seq < 1 || tokens.Len()-1 < seq {
		return nil, fmt.Errorf("windows: text is shorter than a window: got %d tokens, want at least %d+1",
			tokens.Len(), seq)
	}
	return windows{tokens, seq}, nil
}

type windows struct {
	tokens TokenSource
	seq    int
}

func (w windows) Len() int { return (w.tokens.Len() - 1) / w.seq }

func (w windows) Fill(i int, r Row) {
	w.tokens.Read(r.IDs, i*w.seq)
	w.tokens.Read(r.Labels, i*w.seq+1)
}

// Pad returns a row for each example, padded with token 0 and labels that the loss ignores.
func Pad(e Examples, seq int) (RowSource, error) {
	if err := checkExamples(e, seq); err != nil {
		return nil, err
	}
	return padded{e}, nil
}

type padded struct{ e Examples }

func (p padded) Len() int { return p.e.Len() }

func (p padded) Fill(i int, r Row) {
	n := p.e.Size(i)
	p.e.Fill(i, r.IDs[:n], r.Labels[:n])
	pad(r, n)
}

// pad fills a row with padding from token n on.
func pad(r Row, n int) {
	clear(r.IDs[n:])
	for i := n; i < len(r.Labels); i++ {
		r.Labels[i] = IgnoreLabel
	}
	if r.Segments != nil {
		clear(r.Segments[n:])
		upward(r.Positions[n:])
	}
}

// upward sets positions to 0, 1, 2 and so on.
func upward(positions []int32) {
	for i := range positions {
		positions[i] = int32(i)
	}
}

// checkExamples returns an error if an example does not fit a row.
func checkExamples(e Examples, seq int) error {
	if e.Len() == 0 {
		return fmt.Errorf("data: no examples")
	}
	for i := range e.Len() {
		if n := e.Size(i); n < 1 || n > seq {
			return fmt.Errorf("data: example %d: got %d tokens, want 1 to %d", i, n, seq)
		}
	}
	return nil
}

// BySize returns the indices of examples, the longest first, in their order if equally long.
func BySize(e Examples) []int {
	longest := 0
	for i := range e.Len() {
		longest = max(longest, e.Size(i))
	}
	list := make([]int, e.Len())
	for i, x := range bySize(e, longest) {
		list[i] = int(x)
	}
	return list
}

// PaddedBatch returns ids and labels, both i32[batch,seq], of some examples, one per row; further rows are
// padding that the loss ignores.
func PaddedBatch(e Examples, rows []int, batch, seq int) []array.Array {
	b := newRows(batch, seq, false)
	for i := range batch {
		if i < len(rows) {
			padded{e}.Fill(rows[i], b.row(i))
		} else {
			pad(b.row(i), 0)
		}
	}
	return b.arrays
}
