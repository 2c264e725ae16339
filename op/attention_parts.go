package op

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// The definitions below split heads into two dims: g, the heads of keys, and r, the heads of queries that
// share one of them. Scores are [b g r s t].

// splitHeads returns x [batch seq heads dim] with its heads split into groups.
func splitHeads(x *Tensor, groups int) *Tensor {
	return Reshape(x, x.Dim(0), x.Dim(1), groups, x.Dim(2)/max(1, groups), x.Dim(3))
}

// headRows reshapes one number for each query, [batch heads seq], so that it broadcasts against scores.
func headRows(x *Tensor, groups int) *Tensor {
	return Reshape(x, x.Dim(0), groups, x.Dim(1)/max(1, groups), x.Dim(2), 1)
}

func hiddenScore(x *Tensor) *Tensor { return Const(x, math.Inf(-1)) }

// scores returns scale·qkᵀ, capped, with -Inf where the mask hides a key.
func (o attention) scores(q, k *Tensor, extras []*Tensor) *Tensor {
	at, key := o.places(q, k, extras)
	return o.scoresAt(q, k, extras, at, key)
}

// scoresAt is like scores for queries and keys at the given positions.
func (o attention) scoresAt(q, k *Tensor, extras []*Tensor, at, key *Tensor) *Tensor {
	s := o.rawScores(q, k)
	if o.Cap != 0 {
		s = MulScalar(Tanh(MulScalar(s, 1/o.Cap)), o.Cap)
	}
	if mask := o.mask(q, k, extras, at, key); mask != nil {
		s = Where(mask, s, hiddenScore(s))
	}
	return s
}

// rawScores returns scale·qkᵀ.
func (o attention) rawScores(q, k *Tensor) *Tensor {
	return MulScalar(Einsum("bsgrd,btgd->bgrst", splitHeads(q, k.Dim(2)), k), o.scale(q.Shape()))
}

// capSlope returns the derivative of the capped scores by the raw ones: 1 - tanh².
func (o attention) capSlope(q, k *Tensor) *Tensor {
	t := Tanh(MulScalar(o.rawScores(q, k), 1/o.Cap))
	return Sub(Const(t, 1), Square(t))
}

// places returns the positions of queries and keys.
func (o attention) places(q, k *Tensor, extras []*Tensor) (at, key *Tensor) {
	if o.Zigzag > 0 {
		at = rangePositions(q.Scope(), o.zigzagRows(q.Dim(1)))
		return at, at
	}
	at = AddScalar(Iota(q.Scope(), array.I64, array.Shape{q.Dim(1)}, 0), float64(o.Offset))
	if o.DynamicOffset {
		at = Add(at, Cast(extras[len(extras)-1], array.I64))
	}
	return at, Iota(q.Scope(), array.I64, array.Shape{k.Dim(1)}, 0)
}

// mask returns which keys each query attends to, such that it broadcasts against scores; nil means all of
// them.
func (o attention) mask(q, k *Tensor, extras []*Tensor, at, key *Tensor) *Tensor {
	var mask *Tensor
	both := func(m *Tensor) {
		if mask == nil {
			mask = m
		} else {
			mask = LogicalAnd(mask, m)
		}
	}
	if o.Causal || o.Window > 0 {
		at, key := Unsqueeze(at, 1), Unsqueeze(key, 0)
		both(LessEqual(key, at))
		if o.Window > 0 {
			both(Greater(key, AddScalar(at, -float64(o.Window))))
		}
	}
	if o.Segments {
		query := Reshape(extras[0], q.Dim(0), 1, 1, q.Dim(1), 1)
		both(Equal(query, Reshape(extras[1], k.Dim(0), 1, 1, 1, k.Dim(1))))
	}
	return mask
}

func (o attention) Decompose(in []*Tensor) []*Tensor {
	q, k, v := wide(in[0]), wide(in[1]), wide(in[2])
	s := o.scores(q, k, in[3:])
	top := StopGradient(lastOf(AMax(s, -1), s))
	top = Where(Equal(top, hiddenScore(top)), Const(top, 0), top)
	e := Exp(Sub(s, top))
	sum := lastOf(Sum(e, -1), e)
	// A row without keys sums to 0. It must not reach the division and the logarithm, whose gradients are not
	// finite there.
	empty := Equal(sum, Const(sum, 0))
	safe := Where(empty, Const(sum, 1), sum)
	out := Einsum("bgrst,btge->bsgre", Div(e, safe), v)
	lse := Where(empty, hiddenScore(sum), Add(Log(safe), top))
	return []*Tensor{
		Cast(Reshape(out, q.Dim(0), q.Dim(1), q.Dim(2), v.Dim(3)), in[0].DType()),
		Reshape(lse, q.Dim(0), q.Dim(2), q.Dim(1)),
	}
}
