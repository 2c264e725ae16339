package ir

import (
	"fmt"
	"strings"
)

// Check verifies that f is a well-formed program: dense IDs, every operand made before its use, and types
// that the ops themselves infer. It is run between passes; a fault is a bug of the pass before.
func Check(f *Func) error {
	defined := make([]*Value, f.values)
	next := 0
	define := func(v *Value) error {
		if v.id != next {
			return fmt.Errorf("value %%%d: want ID %d", v.id, next)
		}
		defined[next] = v
		next++
		return nil
	}
	for _, p := range f.params {
		if err := define(p); err != nil {
			return err
		}
	}
	for i, n := range f.nodes {
		if err := checkNode(n, defined); err != nil {
			return fmt.Errorf("%w\n%s", err, f.around(i))
		}
		for _, v := range n.out {
			if err := define(v); err != nil {
				return fmt.Errorf("%w\n%s", err, f.around(i))
			}
		}
	}
	for i, v := range f.results {
		if v.id >= len(defined) || defined[v.id] != v {
			return fmt.Errorf("result %d: %%%d is not a value of %s", i, v.id, f.name)
		}
	}
	return nil
}

func checkNode(n *Node, defined []*Value) error {
	types := make([]Type, len(n.in))
	for i, v := range n.in {
		if v.id >= len(defined) || defined[v.id] != v {
			return fmt.Errorf("%s: operand %d, %%%d, is used before it is made", n.op.Name(), i, v.id)
		}
		types[i] = v.typ
	}
	want, err := Infer(n.op, types)
	if err != nil {
		return fmt.Errorf("%s: %w", n.op.Name(), err)
	}
	if len(want) != len(n.out) {
		return fmt.Errorf("%s: %d results: want %d", n.op.Name(), len(n.out), len(want))
	}
	for i, v := range n.out {
		if !v.typ.Equal(want[i]) {
			return fmt.Errorf("%s: result %d is %v: want %v", n.op.Name(), i, v.typ, want[i])
		}
	}
	return nil
}

// around prints the five nodes on each side of node i, with i marked.
func (f *Func) around(i int) string {
	var b strings.Builder
	for j := max(0, i-5); j < min(len(f.nodes), i+6); j++ {
		mark := "  "
		if j == i {
			mark = "> "
		}
		fmt.Fprintf(&b, "%s%s\n", mark, f.nodes[j])
	}
	return b.String()
}
