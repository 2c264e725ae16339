package op

import (
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/triton"
)

// gated is a SwiGLU of the halves of one array, which its kernel reads where they lie.
type gated struct{ split, node *ir.Node }

func (k kernels) addGated(n *ir.Node) {
	if _, ok := n.Op().(swiglu); !ok || k.taken[n] {
		return
	}
	gate, up := unmarked(n.In()[0]), unmarked(n.In()[1])
	s := gate.Node()
	if s == nil || up.Node() != s || !gate.DType().IsHalf() || gate.Shape().Len() == 0 {
		return
	}
	o, ok := s.Op().(split)
	halves := ok && len(o.Sizes) == 2 && o.Sizes[0] == o.Sizes[1] && o.Dim == len(gate.Shape())-1
	if halves && gate == s.Out()[0] && up == s.Out()[1] {
		k.at[n], k.taken[n] = gated{s, n}, true
	}
}

func (g gated) emit(w *hlo.Writer, refs []hlo.Ref) {
	out := g.node.Out()[0]
	rows, width := rowsOf(out.Shape())
	kernel := triton.SwiGLU(out.DType(), rows, width)
	refs[out.ID()] = emitKernel(w, kernel, refsOf(refs, g.split.In()), hloType(out.Type()))[0]
}
