package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// All is every op: the laws run over it, and the parser finds ops in it by name. An op is added with its file and
// one line here.
func All() []Op {
	return slices.Concat(coreOps(), elementOps(), shapeOps(), layerOps(), attentionOps())
}

func coreOps() []Op {
	return []Op{
		add{},
		cast{},
		einsum{},
		exp{},
		expand{},
		full{},
		identity{},
		matmul{},
		mul{},
		reshape{},
		stopGradient{},
		sum{},
		transpose{},
	}
}

// Lookup finds an op without attributes by its name: what ir.Parse needs.
func Lookup(name string) (ir.Op, bool) {
	for _, o := range All() {
		if o.Name() == name {
			return o, true
		}
	}
	return nil, false
}
