package pass

import (
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
)

// Merge eliminates common subexpressions: nodes with the same op, attributes and operands.
func Merge(f *ir.Func) (*ir.Func, error) {
	seen := map[string][]*ir.Value{}
	numbers := map[*ir.Value]int{}
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		key := nodeKey(n, in, numbers)
		if out, ok := seen[key]; ok {
			return out
		}
		out := b.Apply(n.Op(), in)
		seen[key] = out
		return out
	})
}

// nodeKey returns a text that is the same for equal nodes.
func nodeKey(n *ir.Node, in []*ir.Value, numbers map[*ir.Value]int) string {
	var b strings.Builder
	b.WriteString(ir.FormatOp(n.Op()))
	for _, v := range in {
		if _, ok := numbers[v]; !ok {
			numbers[v] = len(numbers)
		}
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(numbers[v]))
	}
	return b.String()
}
