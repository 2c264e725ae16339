package lower

import (
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/triton"
	"github.com/galley-ml/galley/op"
)

// gated is a kernel for a SwiGLU of the two halves of one array, which it reads in place. It is used if the
// SwiGLU is not fused with the product before it (gatedProduct).
type gated struct{ split, node *ir.Node }

// addGated adds the kernel of a SwiGLU node, fused with the product before it if possible.
func (k kernels) addGated(in programIndex, n *ir.Node) {
	if _, ok := role[op.SwiGLURole](n); !ok || k.taken[n] {
		return
	}
	gate := n.In()[0]
	cut := cutOf(gate, n.In()[1])
	if cut == nil || !gate.DType().IsHalf() || gate.Shape().Len() == 0 {
		return
	}
	if g := (gated{cut, n}); !k.addGatedProduct(in, g) {
		k.at[n], k.taken[n] = g, true
	}
}

// cutOf returns the node that splits the last dim of an array into the halves a and b, looking through marks;
// nil if there is none.
func cutOf(a, b *ir.Value) *ir.Node {
	a, b = unmarked(a), unmarked(b)
	n := a.Node()
	if n == nil || b.Node() != n {
		return nil
	}
	c, ok := role[op.SplitRole](n)
	if !ok || !c.Halves(len(a.Shape())) || a != n.Out()[0] || b != n.Out()[1] {
		return nil
	}
	return n
}

func (g gated) emit(w *hlo.Writer, refs []hlo.Ref) {
	out := g.node.Out()[0]
	rows, width := rowsOf(out.Shape())
	kernel := triton.SwiGLU(out.DType(), rows, width)
	refs[out.ID()] = cuda.CallTriton(w, kernel, refsOf(refs, g.split.In()), hloType(out.Type()))[0]
}
