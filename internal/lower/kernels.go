package lower

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// fusedKernel is nodes that one kernel of our own computes, where XLA's would read their rows again.
type fusedKernel interface {
	// emit writes the kernel and sets the refs of the nodes' results.
	emit(w *hlo.Writer, refs []hlo.Ref)
}

// kernels is how a program is written with kernels of our own.
type kernels struct {
	// at is what stands in the place of a node.
	at map[*ir.Node]fusedKernel
	// other is nodes that a kernel at another node computes.
	other map[*ir.Node]bool
	// late is nodes, in order, that wait for the kernel at a node behind them.
	late map[*ir.Node][]int
	// taken is all of these.
	taken map[*ir.Node]bool
	// least is the share of the device's units that a kernel of a product must keep at work; 0 is for no such
	// kernels.
	least float64
}

// kernelsOf finds the nodes of a program that kernels compute. Alone is that no device has another program,
// with other positions.
func kernelsOf(w *hlo.Writer, f *ir.Func, alone bool) kernels {
	k := kernels{map[*ir.Node]fusedKernel{}, map[*ir.Node]bool{}, map[*ir.Node][]int{}, map[*ir.Node]bool{},
		w.Products()}
	if !w.Kernels() {
		return k
	}
	s := newProgramIndex(f)
	for _, n := range f.Nodes() {
		k.addLoss(s, n)
		k.addPagedAttention(n)
	}
	k.addSkinny(s)
	for _, n := range f.Nodes() {
		k.addPair(s, n)
		k.addGated(s, n)
		k.addGatedGradient(s, n)
		if alone {
			k.addRoPE(s, n)
		}
	}
	return k
}

// each calls write for the nodes that are to be written, by their numbers, in the order of writing.
func (k kernels) each(f *ir.Func, write func(i int, n *ir.Node)) {
	waiting := map[int]bool{}
	for _, list := range k.late {
		for _, i := range list {
			waiting[i] = true
		}
	}
	for i, n := range f.Nodes() {
		if waiting[i] || k.other[n] {
			continue
		}
		write(i, n)
		for _, j := range k.late[n] {
			write(j, f.Nodes()[j])
		}
	}
}

// programIndex is a program's nodes, where they stand, how often values are used, and where first.
type programIndex struct {
	nodes []*ir.Node
	at    map[*ir.Node]int
	uses  map[*ir.Value]int
	first map[*ir.Value]int
}

func newProgramIndex(f *ir.Func) programIndex {
	s := programIndex{f.Nodes(), map[*ir.Node]int{}, map[*ir.Value]int{}, map[*ir.Value]int{}}
	use := func(v *ir.Value, i int) {
		if s.uses[v]++; s.uses[v] == 1 {
			s.first[v] = i
		}
	}
	for i, n := range s.nodes {
		s.at[n] = i
		for _, v := range n.In() {
			use(v, i)
		}
	}
	for _, v := range f.Results() {
		use(v, len(s.nodes))
	}
	return s
}

// unmarked returns the value that a mark, or several, stand on.
func unmarked(v *ir.Value) *ir.Value {
	for v.Node() != nil {
		if _, ok := role[op.MarkRole](v.Node()); !ok {
			break
		}
		v = v.Node().In()[0]
	}
	return v
}

// role returns the role that a node's op has, if it is of type R.
func role[R any](n *ir.Node) (R, bool) {
	r, ok := op.RoleOf(n.Op().(op.Op)).(R)
	return r, ok
}

func refsOf(refs []hlo.Ref, vs []*ir.Value) []hlo.Ref {
	list := make([]hlo.Ref, len(vs))
	for i, v := range vs {
		list[i] = refs[v.ID()]
	}
	return list
}
