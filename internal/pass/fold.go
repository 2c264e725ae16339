package pass

import "github.com/galley-ml/galley/internal/ir"

// folder is an op that may be replaced by something simpler for some operands. Fold returns nil if it is
// not.
type folder interface {
	Fold(in []*ir.Value) *ir.Value
}

// Fold replaces nodes by simpler ones that their ops suggest: an identity by its operand, a reshape of a
// reshape by one.
func Fold(f *ir.Func) (*ir.Func, error) {
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		if o, ok := n.Op().(folder); ok {
			if v := o.Fold(in); v != nil {
				return []*ir.Value{v}
			}
		}
		return b.Apply(n.Op(), in)
	})
}
