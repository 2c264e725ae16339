package seed

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// constraintOn returns what a node asks of its result, and whether it asks for anything. Only one mesh is
// searched.
func constraintOn(m *mesh.Mesh, n *ir.Node) (mesh.Sharding, bool, error) {
	c, ok := n.Op().(op.Constrainer)
	if !ok {
		return mesh.Sharding{}, false, nil
	}
	at, s, err := c.Constraint()
	if err == nil && !at.Equal(m) {
		err = fmt.Errorf("mesh %v: a search is for one mesh, %v: have shardings inferred instead", at, m)
	}
	if err != nil {
		return s, true, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
	}
	return s, true, nil
}

// constrained reports whether a value has the layout that someone asked.
func constrained(v *ir.Value) bool {
	if v.Node() == nil {
		return false
	}
	_, ok := v.Node().Op().(op.Constrainer)
	return ok
}

// asked returns the ways to run a node that asks the layout of its result: as the operand then is laid out,
// too. Terms of a sum are made of the whole, so that nothing is pending that nobody asked for.
func (l *labeler) asked(n *ir.Node, s mesh.Sharding) []label {
	var labels []label
	for _, spec := range l.param(n.Out()[0].Type(), s) {
		labels = append(labels, label{need: []mesh.Spec{spec}, give: []mesh.Spec{spec}})
	}
	return labels
}
