package bench

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// primitive returns a traced value computed by primitive ops alone: every composite op is replaced by those
// that define it. What is then unused is dropped when the program is compiled.
func primitive(y *op.Tensor) *op.Tensor {
	p := primitives{}
	return p.value(y)
}

// primitives maps values to their replacements.
type primitives map[*op.Tensor]*op.Tensor

func (p primitives) value(v *op.Tensor) *op.Tensor {
	if x, ok := p[v]; ok {
		return x
	}
	n := v.Node()
	if n == nil || v.Err() != nil {
		return v
	}
	in, same := make([]*op.Tensor, len(n.In())), true
	for i, x := range n.In() {
		in[i] = p.value(x)
		p[in[i]] = in[i]
		same = same && in[i] == x
	}
	out := n.Out()
	if c, ok := n.Op().(op.Composite); ok {
		out = c.Decompose(in)
		for i, x := range out {
			out[i] = p.value(x)
		}
	} else if !same {
		out = ir.Apply(n.Op(), in...)
	}
	for i, x := range n.Out() {
		p[x] = out[i]
		p[out[i]] = out[i]
	}
	return p[v]
}
