package op

import "github.com/galley-ml/galley/internal/ir"

// Mark returns x under a name that plans refer to: where a stage may begin, where recomputation starts, which
// layout values between layers should have. It costs nothing.
func Mark(x *Tensor, name string) *Tensor { return apply1(mark{Label: name}, x) }

type mark struct {
	identity
	Label string
}

func (mark) Name() string { return "mark" }
func (mark) Role() any    { return MarkRole{} }

// Marked returns the name that a node gives to its result, and whether it is a mark.
func Marked(n *ir.Node) (string, bool) {
	m, ok := n.Op().(mark)
	return m.Label, ok
}

// VJP names the gradient after the value: layers.0 becomes layers.0.grad.
func (o mark) VJP(_, _, dy []*Tensor) []*Tensor { return []*Tensor{Mark(dy[0], o.Label+".grad")} }

// Fold keeps the op, because it carries the name.
func (mark) Fold([]*Tensor) *Tensor { return nil }

func (mark) Samples() []Sample { return []Sample{{Op: mark{Label: "layers.0"}, In: []Arg{f32(5, 7)}}} }
