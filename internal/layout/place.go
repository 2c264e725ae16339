package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// placer determines the rank on which every node of a program is computed, and the resulting stages.
type placer struct {
	f       *ir.Func
	weights int
	ranks   []*rank
	learned []bool
	// at is the rank of each value, -1 if it is not determined; sure is whether weights contribute to that.
	at   []int
	sure []bool
	// place is the rank of each stage, stage that of each node; -1 if it does not depend on weights.
	place []int
	stage []int
}

// newPlacer determines where a program is computed: where its operands are, as for ops of tensors on meshes.
func newPlacer(f *ir.Func, l *Layout, ranks []*rank) (*placer, error) {
	p := &placer{f: f, weights: len(l.Params), ranks: ranks, learned: learnedIn(f, len(l.Params)),
		at: slices.Repeat([]int{-1}, f.NumValues()), sure: make([]bool, f.NumValues())}
	for i, v := range f.Params() {
		switch {
		case i < p.weights:
			if held, ok := l.held[v.Name()]; ok {
				p.at[v.ID()], p.sure[v.ID()] = rankOf(ranks, held.Mesh), true
			}
		case i-p.weights < len(l.Loaded) && l.Loaded[i-p.weights].Mesh != nil:
			p.at[v.ID()] = rankOf(ranks, l.Loaded[i-p.weights].Mesh)
		}
	}
	for _, n := range f.Nodes() {
		if err := p.forward(n); err != nil {
			return nil, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
	}
	p.backward()
	p.stages()
	return p, nil
}

// forward places a node by its operands, or by its own constraint.
func (p *placer) forward(n *ir.Node) error {
	at, sure := -1, false
	if c, ok := n.Op().(op.Constrainer); ok {
		m, _, err := c.Constraint()
		if err != nil {
			return err
		}
		at, sure = rankOf(p.ranks, m), p.learned[n.Out()[0].ID()]
	} else {
		for i, v := range n.In() {
			own, says := p.at[v.ID()], p.sure[v.ID()]
			switch {
			case own < 0 || sure && !says:
			case says && sure && own != at:
				return fmt.Errorf("operand %d is on %v, another on %v: reshard one of them", i, p.ranks[own].meshes[0],
					p.ranks[at].meshes[0])
			case at < 0 || says && !sure:
				at, sure = own, says
			}
		}
	}
	for _, v := range n.Out() {
		p.at[v.ID()], p.sure[v.ID()] = at, sure && p.learned[v.ID()]
	}
	return nil
}

// backward places what is not placed yet where it is first used.
func (p *placer) backward() {
	for _, n := range slices.Backward(p.f.Nodes()) {
		out := p.at[n.Out()[0].ID()]
		for _, v := range n.In() {
			if v.Node() == nil || p.at[v.ID()] >= 0 || out < 0 {
				continue
			}
			for _, x := range v.Node().Out() {
				p.at[x.ID()] = out
			}
		}
	}
	for id := range p.at {
		p.at[id] = max(p.at[id], 0)
	}
}

// stages assigns the nodes to stages: each to the first one on its rank that comes after all that it needs.
func (p *placer) stages() {
	number := p.numbers()
	p.stage = slices.Repeat([]int{-1}, len(p.f.Nodes()))
	own := p.ownWeights()
	for i, n := range p.f.Nodes() {
		if !p.learned[n.Out()[0].ID()] || own[n] {
			continue
		}
		least := 0
		for _, v := range n.In() {
			if v.Node() != nil {
				least = max(least, p.stage[number[v.Node()]])
			}
		}
		p.stage[i] = p.next(least, p.at[n.Out()[0].ID()])
	}
	p.weightStages(number, own)
}

// next returns the first stage on a rank, starting at a number, or a new one.
func (p *placer) next(least, rank int) int {
	for s := least; s < len(p.place); s++ {
		if p.place[s] == rank {
			return s
		}
	}
	p.place = append(p.place, rank)
	return len(p.place) - 1
}

// ownWeights returns the nodes that depend on weights and constants alone and are on one rank with all their
// users: what is computed from weights on one mesh and moved to another is passed on like anything else.
func (p *placer) ownWeights() map[*ir.Node]bool {
	fixed := make([]bool, p.f.NumValues())
	for _, v := range p.f.Params()[:p.weights] {
		fixed[v.ID()] = true
	}
	own := map[*ir.Node]bool{}
	for _, n := range p.f.Nodes() {
		if !slices.ContainsFunc(n.In(), func(v *ir.Value) bool { return !fixed[v.ID()] }) {
			for _, v := range n.Out() {
				fixed[v.ID()] = true
			}
			own[n] = p.learned[n.Out()[0].ID()]
		}
	}
	if p.at == nil { // there are no meshes to move between
		return own
	}
	for p.handOn(own) {
	}
	return own
}

// handOn removes nodes whose results go to another rank and nodes that take such results. It reports whether
// there were any.
func (p *placer) handOn(own map[*ir.Node]bool) (found bool) {
	for _, n := range p.f.Nodes() {
		for _, v := range n.In() {
			from := v.Node()
			if from == nil || !p.learned[v.ID()] || ownSource(n, v) != v {
				continue
			}
			if own[from] && p.at[v.ID()] != p.at[n.Out()[0].ID()] {
				own[from], found = false, true
			}
			if own[n] && !own[from] {
				own[n], found = false, true
			}
		}
	}
	return found
}

// weightStages puts what is computed from weights alone into the first stage that uses it: nothing is passed
// on that a stage can compute from its own weights.
func (p *placer) weightStages(number map[*ir.Node]int, own map[*ir.Node]bool) {
	for _, n := range slices.Backward(p.f.Nodes()) {
		for _, v := range n.In() {
			if v.Node() == nil || !own[v.Node()] {
				continue
			}
			use, i := p.stage[number[n]], number[v.Node()]
			if use >= 0 && (p.stage[i] < 0 || use < p.stage[i]) {
				p.stage[i] = use
			}
		}
	}
	for i, n := range p.f.Nodes() {
		if own[n] && p.stage[i] < 0 { // only the results use it
			p.stage[i] = max(0, len(p.place)-1)
		}
	}
	if len(p.place) == 0 {
		p.place = []int{0}
	}
}

// order returns the ranks in the order in which data reaches them, as numbers of the program's ranks.
func (p *placer) order() []int {
	var list []int
	for _, r := range p.place {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// meshMark is the prefix of the marks with which stages of meshes begin.
const meshMark = "mesh.stage."

// marked returns the program with its nodes in the order of their stages, each of which begins with a mark.
func (p *placer) marked() (*ir.Func, []string, error) {
	if len(p.place) == 1 {
		return p.f, nil, nil
	}
	m := &marker{p: p, b: ir.NewBuilder(p.f.Name()), env: make([]*ir.Value, p.f.NumValues())}
	for i, v := range m.b.ParamsOf(p.f) {
		m.env[i] = v
	}
	var cuts []string
	for k := -1; k < len(p.place); k++ {
		m.stage = map[int]*ir.Value{}
		if k > 0 {
			cuts = append(cuts, fmt.Sprint(meshMark, k))
			m.begin(k, cuts[k-1])
		}
		m.nodes(k)
	}
	var results []*ir.Value
	for _, v := range p.f.Results() {
		results = append(results, m.env[v.ID()])
	}
	f, err := m.b.Build(results...)
	return f, cuts, err
}

// marker copies a program stage by stage.
type marker struct {
	p   *placer
	b   *ir.Builder
	env []*ir.Value
	// stage maps values to their replacements within the current stage.
	stage map[int]*ir.Value
}

// begin marks the first value that a stage takes from elsewhere: from another stage or, if it needs none, a
// weight.
func (m *marker) begin(k int, label string) {
	var weight *ir.Value
	for i, n := range m.p.f.Nodes() {
		if m.p.stage[i] != k {
			continue
		}
		for _, v := range n.In() {
			switch {
			case !m.p.learned[v.ID()]:
			case v.Node() != nil && m.env[v.ID()] != nil:
				m.mark(v, n.Pos(), label)
				return
			case v.Node() == nil && weight == nil:
				weight = v
			}
		}
	}
	if weight != nil {
		m.mark(weight, "", label)
	}
}

func (m *marker) mark(v *ir.Value, pos ir.Pos, label string) {
	defer m.b.At(pos)()
	m.stage[v.ID()] = op.Mark(m.env[v.ID()], label)
}

// nodes copies the nodes of a stage; -1 for those that depend on no weight.
func (m *marker) nodes(k int) {
	for i, n := range m.p.f.Nodes() {
		if m.p.stage[i] != k {
			continue
		}
		in := make([]*ir.Value, len(n.In()))
		for j, v := range n.In() {
			v = ownSource(n, v)
			if in[j] = m.stage[v.ID()]; in[j] == nil {
				in[j] = m.env[v.ID()]
			}
		}
		restore := m.b.At(n.Pos())
		for j, v := range m.b.Apply(n.Op(), in) {
			m.env[n.Out()[j].ID()] = v
		}
		restore()
	}
}

// ownSource returns the weight itself if a weight on one mesh is placed on another: the second has a copy,
// and nothing is passed on.
func ownSource(n *ir.Node, v *ir.Value) *ir.Value {
	if _, ok := n.Op().(op.Constrainer); !ok {
		return v
	}
	w := v
	for w.Node() != nil {
		if _, ok := w.Node().Op().(op.Constrainer); !ok {
			return v
		}
		w = w.Node().In()[0]
	}
	return w
}
