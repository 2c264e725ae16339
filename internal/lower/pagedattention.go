package lower

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cuda"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/op"
)

// pagedAttention is a kernel for attention of one new token per sequence to a paged cache. It reads the pages
// in place.
type pagedAttention struct {
	node   *ir.Node
	kernel ptx.PagedAttention
}

func (k kernels) addPagedAttention(n *ir.Node) {
	o, ok := role[op.PagedAttentionRole](n)
	if !ok || k.minShare == 0 || o.Cap != 0 {
		return
	}
	for _, v := range n.In()[:3] {
		ok = ok && v.DType() == array.BF16
	}
	q, keys, values, table := n.In()[0].Shape(), n.In()[1].Shape(), n.In()[2].Shape(), n.In()[3].Shape()
	if !ok || q[1] != 1 || !keys.Equal(values) {
		return
	}
	scale := o.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q[3]))
	}
	p := pagedAttention{n, ptx.PagedAttention{Rows: q[0], Heads: q[2], KeyHeads: keys[1], Dim: q[3],
		Pages: table[1], Tokens: o.Tokens, Scale: scale, Window: o.Window}}
	if p.kernel.Fits() {
		k.at[n], k.taken[n] = p, true
	}
}

func (p pagedAttention) emit(w *hlo.Writer, refs []hlo.Ref) {
	out := p.node.Out()[0]
	refs[out.ID()] = cuda.CallPTX(w, p.kernel.Kernel(), refsOf(refs, p.node.In()), hloType(out.Type()))[0]
}
