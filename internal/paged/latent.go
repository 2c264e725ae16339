package paged

import "github.com/galley-ml/galley/nn"

// latent is multi-head latent attention: keys and values of all heads are computed from one latent vector.
type latent struct {
	h                        heads
	qDown, qUp, kvDown, kvUp projection
	qNorm, kvNorm            norm
	o                        projection
	rank, plain, value       int
}

func (b *builder) latent(a *nn.LatentAttention) attention {
	own := b.share(a.Heads.Queries)
	l := &latent{h: b.heads(a.Heads, a.Value, a.Heads.Dim-a.Plain), kvDown: b.linear(a.KVDown),
		qUp:    b.product(b.pieceOf(a.QUp, own.times(a.Heads.Dim, 0))),
		kvUp:   b.product(b.pieceOf(a.KVUp, own.times(a.Plain+a.Value, 0))),
		kvNorm: b.rms(a.KVNorm), o: b.shared(a.O, b.config.Hidden), rank: a.Rank, plain: a.Plain, value: a.Value}
	if a.QDown != nil {
		l.qDown, l.qNorm = b.linear(a.QDown), b.rms(a.QNorm)
	}
	return l
}

func (a *latent) heads() heads       { return a.h }
func (a *latent) output() projection { return a.o }

func (a *latent) widest() int {
	n := a.kvDown.out() + a.rank + a.kvUp.out()
	if a.qDown.weight != nil {
		n = max(n, a.qDown.out())
	}
	return n
}

func (a *latent) project(s *Step, x []float32) {
	a.queries(s, x)
	n, down, up := s.count, a.kvDown.out(), a.kvUp.out()
	all := s.inner[:n*a.widest()]
	short := all[n*down : n*(down+a.rank)]
	s.multiply(a.kvDown, all[:n*down], x, n)
	for i := range n {
		a.kvNorm.row(short[i*a.rank:(i+1)*a.rank], all[i*down:i*down+a.rank])
	}
	wide := all[n*(down+a.rank) : n*(down+a.rank+up)]
	s.multiply(a.kvUp, wide, short, n)
	s.rows(n, up, func(i int) { a.store(s, i, wide[i*up:(i+1)*up], all[i*down+a.rank:(i+1)*down]) })
}

// store splits a token's up-projected latent vector into keys and values; turned, the rotated part, is shared
// by all heads.
func (a *latent) store(s *Step, i int, up, turned []float32) {
	h := a.h
	h.rope.turn(turned, s.position[i], len(turned))
	each := a.plain + a.value
	for g := range h.keys {
		k := s.k[(i*h.keys+g)*h.dim : (i*h.keys+g+1)*h.dim]
		copy(k, up[g*each:g*each+a.plain])
		copy(k[a.plain:], turned)
		copy(s.v[(i*h.keys+g)*a.value:(i*h.keys+g+1)*a.value], up[g*each+a.plain:])
	}
}

func (a *latent) queries(s *Step, x []float32) {
	n, h := s.count, a.h
	if a.qDown.weight != nil {
		down := a.qDown.out()
		short := s.inner[:n*down]
		s.multiply(a.qDown, short, x, n)
		for i := range n {
			a.qNorm.row(short[i*down:(i+1)*down], short[i*down:(i+1)*down])
		}
		x = short
	}
	q := s.q[:n*h.queries*h.dim]
	s.multiply(a.qUp, q, x, n)
	s.rows(n, h.queries*h.dim, func(i int) {
		for g := range h.queries {
			head := q[(i*h.queries+g)*h.dim : (i*h.queries+g+1)*h.dim]
			h.rope.turn(head[a.plain:], s.position[i], h.dim-a.plain)
		}
	})
}
