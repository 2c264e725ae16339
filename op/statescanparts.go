package op

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// scanParts holds the operands of a state scan in chunks. Heads are two dims, g and r, as in attention's
// definition; c is the chunk, q and k are positions in it.
type scanParts struct {
	size, chunks int
	// x is [b c k g r p], b and c are [b c q g n]; sums [b g r c q] is the logarithm of the decay since the
	// start of the chunk.
	x, b, c, sums *Tensor
	// total is [b g r c], the decay of whole chunks.
	total *Tensor
	// first is [b g r p n].
	first *Tensor
}

func newScanParts(chunk int, in []*Tensor) *scanParts {
	x, a, b, c, h := wide(in[0]), wide(in[1]), wide(in[2]), wide(in[3]), wide(in[4])
	batch, seq, groups := x.Dim(0), x.Dim(1), b.Dim(2)
	rest := x.Dim(2) / max(1, groups)
	s := &scanParts{size: max(1, min(chunk, seq))}
	s.chunks = (seq + s.size - 1) / s.size
	cut := func(t *Tensor, dims ...int) *Tensor { // zeros after the last position change nothing
		low, high := make([]int, len(t.Shape())), make([]int, len(t.Shape()))
		high[1] = s.chunks*s.size - seq
		return Reshape(Pad(t, low, high, 0), append([]int{batch, s.chunks, s.size}, dims...)...)
	}
	s.x = cut(x, groups, rest, x.Dim(3))
	s.b, s.c = cut(b, groups, b.Dim(3)), cut(c, groups, c.Dim(3))
	s.sums = CumSum(Transpose(cut(a, groups, rest), 0, 3, 4, 1, 2), -1)
	s.total = column(s.sums, s.size-1)
	s.first = Reshape(h, batch, groups, rest, x.Dim(3), b.Dim(3))
	return s
}

// decays returns exp(to - from) [.., i, j] where seen(j, i) is true, and 0 elsewhere.
func decays(to, from *Tensor, seen func(j, i *Tensor) *Tensor) *Tensor {
	diff := Sub(Unsqueeze(to, -1), Unsqueeze(from, -2))
	i := Iota(to.Scope(), array.I64, array.Shape{to.Dim(-1), 1}, 0)
	j := Iota(to.Scope(), array.I64, array.Shape{1, from.Dim(-1)}, 1)
	return Exp(Where(seen(j, i), diff, Const(diff, math.Inf(-1))))
}

// within returns the contributions of positions to later ones of their chunk: [b c q g r p].
func (s *scanParts) within() *Tensor {
	weights := Einsum("bcqgn,bckgn->bgcqk", s.c, s.b)
	return Einsum("bgrcqk,bckgrp->bcqgrp", Mul(Unsqueeze(weights, 2), decays(s.sums, s.sums, LessEqual)), s.x)
}

// gives returns what each chunk adds to the state at its end: [b c g r p n].
func (s *scanParts) gives() *Tensor {
	decay := Exp(Sub(Unsqueeze(s.total, -1), s.sums))
	return Einsum("bgrck,bckgrp,bckgn->bcgrpn", decay, s.x, s.b)
}

// states returns the states before each chunk and after the last one, [b c g r p n]: the first state,
// decayed, plus the contributions of earlier chunks.
func (s *scanParts) states() *Tensor {
	begin := Concat([]*Tensor{ZerosLike(Narrow(s.total, -1, 0, 1)), CumSum(s.total, -1)}, -1)
	end := Narrow(begin, -1, 1, s.chunks+1)
	given := Einsum("bgrij,bjgrpn->bigrpn", decays(begin, end, Less), s.gives())
	return Add(given, Einsum("bgri,bgrpn->bigrpn", Exp(begin), s.first))
}

// across returns the contributions of the states before the chunks to the chunks' positions.
func (s *scanParts) across(before *Tensor) *Tensor {
	return Einsum("bcqgn,bcgrpn,bgrcq->bcqgrp", s.c, before, Exp(s.sums))
}
