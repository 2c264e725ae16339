package seed

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Floor returns seconds that no labelling of a program is below on a mesh: each op in the way that computes
// least, and nothing moved. Ops that loops may take in, which then cost less than they do alone, count for
// nothing.
func Floor(f *ir.Func, m *mesh.Mesh, prices spmd.Prices) (float64, error) {
	l, err := newLabeler(f, Config{Mesh: m, Prices: prices})
	if err != nil {
		return 0, err
	}
	total := 0.0
	least := map[string]float64{}
	for _, n := range f.Nodes() {
		o := n.Op().(op.Op)
		if _, joins := op.LoopOf(o, ir.TypesOf(n.In()), ir.TypesOf(n.Out())); joins {
			continue
		}
		key := ir.FormatOp(o) + typesText(n)
		seconds, known := least[key]
		if !known {
			if seconds, err = l.least(n); err != nil {
				return 0, err
			}
			least[key] = seconds
		}
		total += seconds
	}
	return total, nil
}

// least returns the time of the way to run a node that computes least.
func (l *labeler) least(n *ir.Node) (float64, error) {
	labels, err := l.op(n)
	if err != nil || len(labels) == 0 {
		return 0, err
	}
	seconds := labels[0].time
	for _, x := range labels {
		seconds = min(seconds, x.time)
	}
	return seconds, nil
}

func typesText(n *ir.Node) string {
	text := ""
	for _, t := range append(ir.TypesOf(n.In()), ir.TypesOf(n.Out())...) {
		text += " " + t.String()
	}
	return text
}
