package op

import "github.com/galley-ml/galley/array"

// deltaParts holds the operands of a delta scan in chunks: c is the chunk, t and s are positions in it.
//
// Within a chunk that begins with the state h, position t removes u = h·a. With G the cumulative sums of w
// from the start of the chunk, up to t exclusive and inclusive, the definition gives
//
//	u_t = h·(a_t exp(G_{t-1})) + Σ_{s<t} (a_t·b_s exp(G_{t-1}-G_s)) u_s + (a_t·k_s exp(G_{t-1}-G_s)) v_s
//
// a triangular system of equations. Exponents are never above zero.
type deltaParts struct {
	size, chunks int
	// r, k, a, b are [b c t h n], v [b c t h p]; upto and through are G before and after each position.
	r, k, v, a, b, upto, through *Tensor
	// first is [b h p n].
	first *Tensor
}

func newDeltaParts(chunk int, in []*Tensor) *deltaParts {
	batch, seq, heads := in[3].Dim(0), in[3].Dim(1), in[3].Dim(2)
	s := &deltaParts{size: max(1, min(chunk, seq))}
	s.chunks = max(1, (seq+s.size-1)/s.size)
	cut := func(t *Tensor) *Tensor { // zeros after the last position change nothing
		t = wide(t)
		low, high := make([]int, 4), make([]int, 4)
		high[1] = s.chunks*s.size - seq
		return Reshape(Pad(t, low, high, 0), batch, s.chunks, s.size, heads, t.Dim(3))
	}
	w := cut(in[1])
	s.r, s.k, s.v, s.a, s.b = cut(in[0]), cut(in[2]), cut(in[3]), cut(in[4]), cut(in[5])
	s.through = CumSum(w, 2)
	s.upto = Sub(s.through, w)
	s.first = wide(in[6])
	return s
}

// run returns y [b c t h p] and the last state.
func (s *deltaParts) run() (y, last *Tensor) {
	removing, reading := s.pairs(s.a, s.upto, s.b, -1), s.pairs(s.r, s.through, s.b, 0)
	solved := s.inverse(removing)
	given := Einsum("bchts,bcshp->bchtp", s.pairs(s.a, s.upto, s.k, -1), s.v)
	fromValues := Einsum("bchts,bchsp->bchtp", solved, given)
	fromState := Einsum("bchts,bcshn->bchtn", solved, Mul(s.a, Exp(s.upto)))
	h, removed := s.states(fromValues, fromState)
	last = Squeeze(Narrow(h, 1, s.chunks, s.chunks+1), 1)
	y = Einsum("bcthn,bchpn->bcthp", Mul(s.r, Exp(s.through)), Narrow(h, 1, 0, s.chunks))
	y = Add(y, Einsum("bchts,bchsp->bcthp", reading, removed))
	return Add(y, Einsum("bchts,bcshp->bcthp", s.pairs(s.r, s.through, s.k, 0), s.v)), last
}

// pairs returns the products [b c h t s] of x at t, decayed from s to t by to, and y at s, for t at or after
// s; with a diagonal of -1, for t after s only.
func (s *deltaParts) pairs(x, to, y *Tensor, diagonal int) *Tensor {
	expand := func(t *Tensor, dim int) *Tensor { return Unsqueeze(Transpose(t, 0, 1, 3, 2, 4), dim) }
	decay := Sub(expand(to, 4), expand(s.through, 3)) // [b c h t s n]
	seen := Unsqueeze(Tril(Full(x.Scope(), x.DType(), array.Shape{s.size, s.size}, 1), diagonal), -1)
	decay = Mul(Exp(Mul(decay, seen)), seen)
	return Einsum("bchtsn,bcthn,bcshn->bchts", decay, x, y)
}

// inverse returns (1-x)⁻¹ of matrices with zeros on and above the diagonal: (1+x)(1+x²)(1+x⁴)…
func (s *deltaParts) inverse(x *Tensor) *Tensor {
	product := func(x, y *Tensor) *Tensor { return Einsum("bchts,bchsu->bchtu", x, y) }
	one := Cast(OneHot(Iota(x.Scope(), array.I64, array.Shape{s.size}, 0), s.size), x.DType())
	all := Add(one, x)
	for n := 2; n < s.size; n *= 2 {
		x = product(x, x)
		all = Add(all, product(all, x))
	}
	return all
}

// states returns the states before each chunk and after the last one [b c h p n], and what each position
// removes [b c h t p]: the part that comes from values plus that from the state before the chunk.
func (s *deltaParts) states(fromValues, fromState *Tensor) (h, removed *Tensor) {
	total := Squeeze(Narrow(s.through, 2, s.size-1, s.size), 2) // [b c h n]
	rest := Exp(Sub(Unsqueeze(total, 2), s.through))
	b, k := Mul(s.b, rest), Mul(s.k, rest)
	given := Einsum("bcthp,bcthn->bchpn", s.v, k)
	states, parts := []*Tensor{s.first}, []*Tensor{}
	for c := range s.chunks {
		at := func(t *Tensor) *Tensor { return Squeeze(Narrow(t, 1, c, c+1), 1) }
		now := states[c]
		u := Add(at(fromValues), Einsum("bhtn,bhpn->bhtp", at(fromState), now))
		now = Mul(now, Unsqueeze(Exp(at(total)), 2))
		now = Add(Add(now, Einsum("bhtp,bthn->bhpn", u, at(b))), at(given))
		states, parts = append(states, now), append(parts, u)
	}
	return Stack(states, 1), Stack(parts, 1)
}
