package op

import (
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/triton"
)

// gated is a SwiGLU of the halves of one array, which its kernel reads where they lie, if no kernel of the
// product before it computes it, too.
type gated struct{ split, node *ir.Node }

func (k kernels) addGated(in scopeOf, n *ir.Node) {
	if _, ok := n.Op().(swiglu); !ok || k.taken[n] {
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

// cutOf is the node that cuts an array's last dim into just these halves, but for marks; nil if none does.
func cutOf(a, b *Tensor) *ir.Node {
	a, b = unmarked(a), unmarked(b)
	n := a.Node()
	if n == nil || b.Node() != n {
		return nil
	}
	o, ok := n.Op().(split)
	if !ok || len(o.Sizes) != 2 || o.Sizes[0] != o.Sizes[1] || o.Dim != len(a.Shape())-1 || a != n.Out()[0] ||
		b != n.Out()[1] {
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
