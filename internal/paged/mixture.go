package paged

import (
	"math"

	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/packed"
	"github.com/galley-ml/galley/internal/quant"
	"github.com/galley-ml/galley/nn"
)

// mixture is a mixture of experts: the rows of one expert are one product. A token's experts are summed in
// the order in which it chose them.
type mixture struct {
	router   projection
	bias     []float32
	experts  []gated
	shared   *gated
	gate     *projection // the gate of the shared expert; nil for none
	routing  nn.Routing
	perToken int
}

func (b *builder) mixture(l *nn.MoE) mlp {
	r := whole(l.Router.Weight)
	r.bias = l.Router.Bias
	router := b.kept(r)
	m := &mixture{router: router, bias: b.vector(l.Bias), routing: l.Config.Routing, perToken: l.Config.PerToken}
	n := l.GateUp.Type.Shape[1] / 2
	own := b.share(n)
	up, down := b.experts(l.GateUp, own, own.times(1, n)), b.experts(l.Down, b.share(b.config.Hidden))
	act := b.activation()
	if b.err != nil {
		return m
	}
	for e := range up {
		m.experts = append(
			m.experts,
			gated{up: up[e], down: down[e], inner: n, act: act, silu: l.Config.Act == nil},
		)
	}
	if l.Shared != nil {
		g := b.mlp(l.Shared).(gated)
		m.shared = &g
	}
	if l.SharedGate != nil {
		p := whole(l.SharedGate.Weight)
		p.bias = l.SharedGate.Bias
		gate := b.kept(p)
		m.gate = &gate
	}
	return m
}

// experts packs rows of the matrices of a parameter [experts, out, in].
func (b *builder) experts(p *nn.Param, rows ...span) []projection {
	shape := p.Type.Shape
	list := make([]projection, shape[0])
	for e := range list {
		list[e].watch = b.watching(e, piece{weight: p})
	}
	if g, ok := b.grouped(p); ok {
		for e := range list {
			var all []quant.Matrix
			for _, r := range rows {
				all = append(all, g.Rows(e*shape[1]+r.lo, e*shape[1]+r.hi))
			}
			list[e].weight = b.packGrouped(all...)
		}
		return list
	}
	a, ok := b.read(p)
	if !ok {
		return nil
	}
	for e := range list {
		one := packed.Rows(a.Rows(e, e+1).Reshape(shape[1:]...))
		var all []packed.Source
		for _, r := range rows {
			all = append(all, one.Cut(r.lo, r.hi))
		}
		list[e].weight = b.pack(packed.Join(all...))
	}
	return list
}

func (m *mixture) width() int {
	n := 0
	for _, e := range m.experts {
		n = max(n, e.width())
	}
	if m.shared != nil {
		n = max(n, m.shared.width())
	}
	return n
}

func (m *mixture) run(s *Step, y, x []float32, rows int) {
	hidden := len(x) / max(1, rows)
	chosen, weights := m.route(s, x, rows)
	parts := s.parts(rows * m.perToken * hidden) // the result of each choice
	in, out := s.gather(rows*hidden), s.scatter(rows*hidden)
	for e := range m.experts {
		var at []int
		for i, c := range chosen {
			if c == e {
				copy(in[len(at)*hidden:(len(at)+1)*hidden], x[i/m.perToken*hidden:])
				at = append(at, i)
			}
		}
		if len(at) == 0 {
			continue
		}
		m.experts[e].run(s, out[:len(at)*hidden], in[:len(at)*hidden], len(at))
		for j, i := range at {
			kernel.MulScalar(parts[i*hidden:(i+1)*hidden], out[j*hidden:(j+1)*hidden], weights[i])
		}
	}
	if m.shared != nil {
		m.shared.run(s, out[:rows*hidden], x, rows)
		m.weighShared(s, out[:rows*hidden], x, rows)
	}
	for i := range rows {
		row := y[i*hidden : (i+1)*hidden]
		clear(row)
		for k := range m.perToken {
			c := i*m.perToken + k
			kernel.Add(row, row, parts[c*hidden:(c+1)*hidden])
		}
		if m.shared != nil {
			kernel.Add(row, row, out[i*hidden:(i+1)*hidden])
		}
	}
}

// weighShared multiplies the output of the shared expert by its gate.
func (m *mixture) weighShared(s *Step, out, x []float32, rows int) {
	if m.gate == nil {
		return
	}
	gates, hidden := make([]float32, rows), len(x)/max(1, rows)
	s.multiply(*m.gate, gates, x, rows)
	kernel.Sigmoid(gates, gates)
	for i, g := range gates {
		kernel.MulScalar(out[i*hidden:(i+1)*hidden], out[i*hidden:(i+1)*hidden], g)
	}
}

// route returns the experts of every row and their weights, perToken for each row.
func (m *mixture) route(s *Step, x []float32, rows int) (chosen []int, weights []float32) {
	n := len(m.experts)
	scores := make([]float32, rows*n)
	s.multiply(m.router, scores, x, rows)
	ranks := make([]float32, n)
	for i := range rows {
		row := scores[i*n : (i+1)*n]
		if m.routing.Sigmoid {
			kernel.Sigmoid(row, row)
		} else {
			kernel.SoftmaxRow(row, row)
		}
		copy(ranks, row)
		if m.bias != nil {
			kernel.Add(ranks, ranks, m.bias)
		}
		if m.routing.Groups > 1 {
			m.limit(ranks)
		}
		first := len(weights)
		for range m.perToken {
			e := largest(ranks)
			ranks[e] = float32(math.Inf(-1))
			chosen, weights = append(chosen, e), append(weights, row[e])
		}
		m.weigh(weights[first:])
	}
	return chosen, weights
}

// largest returns the index of the largest element, the first of equal ones.
func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// limit sets scores outside the best groups to 0.
func (m *mixture) limit(ranks []float32) {
	r := m.routing
	size := len(ranks) / r.Groups
	sums := make([]float32, r.Groups)
	for g := range sums {
		group := append([]float32(nil), ranks[g*size:(g+1)*size]...)
		for range r.GroupBest {
			e := largest(group)
			sums[g] += group[e]
			group[e] = float32(math.Inf(-1))
		}
	}
	kept := make([]bool, r.Groups)
	for range r.TopGroups {
		g := largest(sums)
		kept[g], sums[g] = true, float32(math.Inf(-1))
	}
	for g, k := range kept {
		if !k {
			clear(ranks[g*size : (g+1)*size])
		}
	}
}

// weigh turns the scores of chosen experts into weights.
func (m *mixture) weigh(w []float32) {
	r := m.routing
	if !r.RawWeights {
		sum := float32(0)
		for _, x := range w {
			sum += x
		}
		sum += float32(r.SumShift)
		if r.SumFloor != 0 {
			sum = max(sum, float32(r.SumFloor))
		}
		for i := range w {
			w[i] /= sum
		}
	}
	if r.Scale != 0 && r.Scale != 1 {
		kernel.MulScalar(w, w, float32(r.Scale))
	}
}
