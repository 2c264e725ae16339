package lower

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// fusedKernel is a kernel of this repository that computes several nodes.
type fusedKernel interface {
	// emit writes the kernel and sets the refs of the nodes' results.
	emit(w *hlo.Writer, refs []hlo.Ref)
}

// kernels maps the nodes of a program to the fused kernels that compute them.
type kernels struct {
	// at has the kernels by the node in whose place they are called.
	at map[*ir.Node]fusedKernel
	// other marks the nodes that are computed by a kernel called at another node.
	other map[*ir.Node]bool
	// late has, by the node at which a kernel is called, the indices of earlier nodes that read its results.
	// They are written after it, in this order.
	late map[*ir.Node][]int
	// taken marks all these nodes.
	taken map[*ir.Node]bool
	// minShare is the minimum share of the device's units that a product's kernel must keep busy; 0 means to
	// use no such kernels.
	minShare float64
}

// kernelsOf chooses the fused kernels of a program. alone means that all devices run this program: with
// several, the positions of rotary embeddings may differ between them.
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

// each calls write for the nodes to be written, with their indices, in the order of writing.
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

// programIndex indexes a program: at has the position of each node, uses the number of uses of each value,
// and first the position of its first use.
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

// unmarked returns the value below any marks.
func unmarked(v *ir.Value) *ir.Value {
	for v.Node() != nil {
		if _, ok := role[op.MarkRole](v.Node()); !ok {
			break
		}
		v = v.Node().In()[0]
	}
	return v
}

// role returns the role of a node's op, if it is of type R.
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
