package op

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// flowTies groups the dims of all tensors in an op with bodies into classes that have to be split together:
// dims that a node of a body has as one factor, and those of a value that is passed in and out of a body.
type flowTies struct {
	in, out []Type
	bodies  []*ir.Func
	// parent is a union-find forest over dims; whole says, for each root, that the class must not be split.
	parent []int
	whole  []bool
	// operands, results and values (by body) locate the dims of each tensor.
	operands, results []handle
	values            [][]handle
	// rules holds the rules of nodes, by body.
	rules [][]*mesh.Parsed
	// letters holds the factor of each class that operands or results have, and split how results behave if the
	// class is split.
	letters map[flowName]byte
	split   map[int]*flowClass
	// joint holds the classes that devices can split by adding up partial sums inside the bodies.
	joint map[int]bool
}

// handle locates the dims of one tensor.
type handle struct{ base, rank int }

func newFlowTies(o flow, in []Type) (*flowTies, error) {
	out, err := o.Infer(in)
	if err != nil {
		return nil, err
	}
	t := &flowTies{in: in, out: out, letters: map[flowName]byte{}, split: map[int]*flowClass{},
		joint: map[int]bool{}}
	if t.bodies, err = o.Bodies(in); err != nil {
		return nil, err
	}
	for _, x := range in {
		t.operands = append(t.operands, t.handle(len(x.Shape)))
	}
	for _, x := range out {
		t.results = append(t.results, t.handle(len(x.Shape)))
	}
	for _, f := range t.bodies {
		handles := make([]handle, f.NumValues())
		for _, v := range f.Params() {
			handles[v.ID()] = t.handle(len(v.Shape()))
		}
		for _, n := range f.Nodes() {
			for _, v := range n.Out() {
				handles[v.ID()] = t.handle(len(v.Shape()))
			}
		}
		t.values = append(t.values, handles)
	}
	for i, f := range t.bodies {
		t.rules = append(t.rules, make([]*mesh.Parsed, len(f.Nodes())))
		for j, n := range f.Nodes() {
			t.rules[i][j] = t.node(i, n)
		}
	}
	o.ties(t)
	t.doubles()
	return t, nil
}

func (t *flowTies) handle(rank int) handle {
	h := handle{len(t.parent), rank}
	for range rank {
		t.parent, t.whole = append(t.parent, len(t.parent)), append(t.whole, false)
	}
	return h
}

func (t *flowTies) operand(i int) handle             { return t.operands[i] }
func (t *flowTies) result(i int) handle              { return t.results[i] }
func (t *flowTies) value(body int, v *Tensor) handle { return t.values[body][v.ID()] }
func (t *flowTies) param(body, i int) handle {
	return t.value(body, t.bodies[body].Params()[i])
}
func (t *flowTies) given(body, i int) handle {
	return t.value(body, t.bodies[body].Results()[i])
}

// tie unites the dims of x, except for the first but of them, with those of y.
func (t *flowTies) tie(x, y handle, but int) {
	for d := range y.rank {
		t.join(x.base+but+d, y.base+d)
	}
}

func (t *flowTies) root(i int) int {
	for t.parent[i] != i {
		i = t.parent[i]
	}
	return i
}

func (t *flowTies) join(i, j int) {
	i, j = t.root(i), t.root(j)
	t.parent[max(i, j)] = min(i, j)
	t.whole[min(i, j)] = t.whole[i] || t.whole[j]
}

func (t *flowTies) keepWhole(dim int) { t.whole[t.root(dim)] = true }

// node unites the dims of a node that its rule makes one factor.
func (t *flowTies) node(body int, n *ir.Node) *mesh.Parsed {
	in, out := typesOfValues(n.In()), typesOfValues(n.Out())
	p, err := n.Op().(Op).Rule(in).Bind(shapesOfTypes(in), shapesOfTypes(out))
	tensors := slices.Concat(n.In(), n.Out())
	if err != nil || p.NumTensors() != len(tensors) {
		p = nil
	}
	first := map[byte]int{}
	for k, v := range tensors {
		h := t.value(body, v)
		for d := range h.rank {
			if p == nil || len(p.Tensor(k)[d]) == 0 {
				t.keepWhole(h.base + d)
				continue
			}
			names := p.Tensor(k)[d]
			for _, name := range names {
				f := p.Factors[p.Index(name)]
				if at, ok := first[name]; !ok {
					first[name] = h.base + d
				} else if len(names) == 1 {
					t.join(at, h.base+d)
				} else {
					t.keepWhole(at)
				}
				if len(names) > 1 || f.Whole || f.Joint {
					t.keepWhole(h.base + d)
				}
			}
		}
	}
	return p
}

// doubles forbids splitting classes of which a tensor has two dims, because one axis cannot split both.
func (t *flowTies) doubles() {
	check := func(h handle) {
		for d := range h.rank {
			for e := range d {
				if t.root(h.base+d) == t.root(h.base+e) {
					t.keepWhole(h.base + d)
				}
			}
		}
	}
	for _, h := range slices.Concat(t.operands, t.results, slices.Concat(t.values...)) {
		check(h)
	}
}

// has reports whether a tensor has a dim of a class.
func (t *flowTies) has(h handle, class int) bool {
	for d := range h.rank {
		if t.root(h.base+d) == class {
			return true
		}
	}
	return false
}

func shapesOfTypes(ts []Type) [][]int {
	shapes := make([][]int, len(ts))
	for i, t := range ts {
		shapes[i] = t.Shape
	}
	return shapes
}

// flowTied caches flowTies by the op's text and operands.
var flowTied = struct {
	sync.Mutex
	byText map[string]*flowTies
}{byText: map[string]*flowTies{}}

// tiesOf returns the classes of dims of an op, their factors, and the state of results along each.
func tiesOf(o flow, in []Type) (*flowTies, error) {
	key := ir.FormatOp(o) + fmt.Sprint(in)
	flowTied.Lock()
	t := flowTied.byText[key]
	flowTied.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := newFlowTies(o, in)
	if err != nil {
		return nil, err
	}
	t.name(o)
	flowTied.Lock()
	defer flowTied.Unlock()
	if len(flowTied.byText) >= manyBodies {
		clear(flowTied.byText)
	}
	flowTied.byText[key] = t
	return t, nil
}

// name assigns a letter to each class that operands and results have. A class that must not be split and of
// which a tensor has several dims gets one letter for each, so that inference does not spread from one to the
// other.
func (t *flowTies) name(o flow) {
	for _, h := range slices.Concat(t.operands, t.results) {
		for d := range h.rank {
			r := t.root(h.base + d)
			at := flowName{r, t.before(h, d)}
			if _, ok := t.letters[at]; ok || len(t.letters) == len(letters) {
				continue
			}
			t.letters[at] = letters[len(t.letters)]
			if !t.whole[r] {
				t.follow(o, r)
			}
		}
	}
}

// flowName is a class, and the index of the dim among those of one tensor in it.
type flowName struct{ class, number int }

// before returns the number of earlier dims of the tensor in the same class.
func (t *flowTies) before(h handle, dim int) int {
	n := 0
	for d := range dim {
		if t.root(h.base+d) == t.root(h.base+dim) {
			n++
		}
	}
	return n
}

// follow determines the states of results if a class is split, or forbids splitting it.
func (t *flowTies) follow(o flow, class int) {
	c := &flowClass{flowTies: t, class: class}
	states, ok := o.states(c)
	ok = ok &&
		slices.ContainsFunc(states, func(s flowState) bool { return s == stateSplit || s == statePartial })
	for i, s := range states {
		if s == stateBroken || s != stateSplit && t.out[i].DType == array.Bool {
			ok = false
		}
	}
	if ok {
		c.results = states
		t.split[class] = c
		return
	}
	t.keepWhole(class)
	c = &flowClass{flowTies: t, class: class, joint: true}
	states, ok = o.states(c)
	t.joint[class] = ok && !slices.Contains(states, stateBroken) && len(c.starts) == 0
}

// flowRule returns the rule of an op with bodies: its factors are the classes of its dims.
func flowRule(o flow, in []Type) mesh.Rule {
	t, err := tiesOf(o, in)
	if err != nil {
		return mesh.Unknown
	}
	return t.rule(false)
}

// flowTogether returns the rule by which devices compute an op with bodies jointly: inside the bodies they
// add up what a node sums along a split dim.
func flowTogether(o flow, in []Type) CooperativeRule {
	t, err := tiesOf(o, in)
	if err != nil || len(t.joint) == 0 {
		return CooperativeRule{}
	}
	for _, ok := range t.joint {
		if ok {
			return CooperativeRule{Rule: t.rule(true), Prefer: BySize}
		}
	}
	return CooperativeRule{}
}

// rule returns the text of the rule; with together, joint classes may be split.
func (t *flowTies) rule(together bool) mesh.Rule {
	side := func(handles []handle) string {
		words := make([]string, len(handles))
		for i, h := range handles {
			for d := range h.rank {
				r := t.root(h.base + d)
				name, ok := t.letters[flowName{r, t.before(h, d)}]
				if !ok {
					return "~"
				}
				words[i] += string(name)
				switch {
				case together && t.joint[r]:
					words[i] += "+"
				case t.whole[r]:
					words[i] += "*"
				}
			}
		}
		return strings.Join(words, ",")
	}
	lhs, rhs := side(t.operands), side(t.results)
	if lhs == "~" || rhs == "~" {
		return mesh.Unknown
	}
	return mesh.Rule(lhs + "->" + rhs)
}
