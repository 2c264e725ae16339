package op

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// fusedProgram is a body that is ready to run.
type fusedProgram struct {
	f *ir.Func
	// plan is the loop; it is nil if the body cannot be one and its nodes are run one by one. why is the reason
	// for that, or for running strips instead of code.
	plan *LoopPlan
	why  error
	// param is the index of the operand behind each stream.
	param []int
	// results holds the stored values: the body's results, without changes of shape.
	results []*ir.Value
	stores  []loopStore
	parts   []loopPart
	over    []int
	// code is the machine code of the parts; if it is nil, strips run, and why says why.
	code []loopCode
}

func newFusedProgram(f *ir.Func) *fusedProgram {
	p := &fusedProgram{f: f}
	if p.plan, p.why = planBody(f); p.why != nil {
		return p
	}
	number := map[*ir.Value]int{}
	for i, v := range f.Params() {
		number[v] = i
	}
	for _, s := range p.plan.streams {
		p.param = append(p.param, number[s.value])
	}
	for _, v := range f.Results() {
		p.results = append(p.results, p.plan.base(v))
	}
	p.stores = p.plan.stores(p.results)
	p.parts = p.plan.parts(p.stores)
	p.over = p.inPlace()
	p.why = p.compile()
	return p
}

// planBody returns the loop of a body, or the reason why it cannot be one.
func planBody(f *ir.Func) (*LoopPlan, error) {
	var nodes []*LoopNode
	for _, n := range f.Nodes() {
		ln := NewLoopNode(n)
		if ln == nil {
			return nil, fmt.Errorf("%s is in no loop", n.Op().Name())
		}
		nodes = append(nodes, ln)
	}
	p, err := PlanLoop(nodes)
	if err != nil {
		return nil, err
	}
	seen := map[*ir.Value]bool{}
	for _, v := range f.Results() {
		b := p.base(v)
		if l := p.level[b]; l == outside || l == constant || seen[b] {
			return nil, fmt.Errorf("result %v is not computed, or returned twice", v.Type())
		}
		seen[b] = true
	}
	return p, nil
}

// base returns the value whose memory v shares in a loop, because changes of shape move nothing.
func (p *LoopPlan) base(v *ir.Value) *ir.Value {
	for v.Node() != nil {
		l, ok := loopOfNode(v.Node())
		if !ok || l.Kind != LoopSame || p.level[v.Node().In()[0]] == outside {
			return v
		}
		v = v.Node().In()[0]
	}
	return v
}

// takes reports whether the program was made for operands of these types.
func (p *fusedProgram) takes(in []Type) bool {
	if len(in) != len(p.f.Params()) {
		return false
	}
	for i, v := range p.f.Params() {
		if !v.Type().Equal(in[i]) {
			return false
		}
	}
	return true
}

func (p *fusedProgram) run(env *Env, in, out []array.Array) {
	switch {
	case p.plan == nil:
		for i, a := range evalFunc(env, p.f, in) {
			copyBytes(env, out[i], a)
		}
	case p.code != nil:
		p.runCode(env, in, out)
	default:
		p.runStrips(env, in, out)
	}
}

// inPlace finds an operand for each full-size result that the result may overwrite: of its type, read
// elementwise, and not read after the result is written, neither by a later node nor in a later pass over a
// row.
func (p *fusedProgram) inPlace() []int {
	over := make([]int, len(p.results))
	taken := map[int]bool{}
	for i, v := range p.results {
		over[i] = -1
		if p.plan.level[v] != perElem {
			continue
		}
		for s := range p.plan.streams {
			x := p.param[s]
			if !taken[x] && p.f.Params()[x].DType() == v.DType() && p.mayOverwrite(x, v) {
				over[i], taken[x] = x, true
				break
			}
		}
	}
	return over
}

// mayOverwrite reports whether an operand is not read after v is written, which happens in the last phase:
// values of earlier phases may be recomputed from operands.
func (p *fusedProgram) mayOverwrite(param int, v *ir.Value) bool {
	if p.f.Params()[param].Shape().Len() != p.plan.Rows*p.plan.Cols {
		return false
	}
	for s, st := range p.plan.streams {
		inOrder := p.plan.Rows == 1 || st.even(p.plan.Cols) // a single row has no neighbours
		if p.param[s] == param && !(st.step == 1 && st.offset == 0 && inOrder) {
			return false
		}
	}
	for _, st := range p.stores { // strips read stored streams at the very end
		if st.from.value == nil && p.param[st.from.stream] == param {
			return false
		}
	}
	last, made := -1, -1
	for i, ln := range p.plan.nodes {
		out := ln.node.Out()[0]
		if p.plan.lastRead(ln) > p.plan.phase[v] {
			return false
		}
		if out == v {
			made = i
		}
		for _, o := range p.plan.in[i] {
			if o.value == nil && p.param[o.stream] == param {
				last = i
			}
		}
	}
	return last <= made
}

// lastRead returns the phase in which a node reads its operands.
func (p *LoopPlan) lastRead(ln *LoopNode) int {
	phase := p.phase[ln.node.Out()[0]]
	if ln.loop.Kind == LoopFold {
		phase--
	}
	return phase
}
