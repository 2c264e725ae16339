package seed

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// classes groups what repeats: nodes of one op, line and types whose neighbours, two steps far, are of one
// class, too; and parameters of one type, annotated alike, whose names differ in numbers only. Any grouping
// is sound: it only makes members have one layout.
type classes struct {
	// node and value are the class of each node and of each value, by number.
	node, value []int
	count       int
}

const classRounds = 2

func classify(f *ir.Func, given map[int]mesh.Sharding) *classes {
	c := &classes{node: make([]int, len(f.Nodes())), value: make([]int, f.NumValues())}
	ids := newNumbers()
	for _, v := range f.Params() {
		key := "param " + withoutNumbers(v.Name()) + " " + v.Type().String()
		if s, ok := given[v.ID()]; ok {
			key += " " + s.String()
		}
		c.value[v.ID()] = ids.of(key)
	}
	for i, n := range f.Nodes() {
		c.node[i] = ids.of("node " + ir.FormatOp(n.Op()) + " " + string(n.Pos()) +
			fmt.Sprint(ir.TypesOf(n.In()), ir.TypesOf(n.Out())))
	}
	users := usersOf(f)
	for range classRounds {
		c.refine(f, users)
	}
	return c
}

// user is one use of a value: a node's operand.
type user struct{ node, operand int }

func usersOf(f *ir.Func) [][]user {
	users := make([][]user, f.NumValues())
	for i, n := range f.Nodes() {
		for j, v := range n.In() {
			users[v.ID()] = append(users[v.ID()], user{i, j})
		}
	}
	return users
}

// refine tells apart what has other neighbours.
func (c *classes) refine(f *ir.Func, users [][]user) {
	ids := newNumbers()
	for i, n := range f.Nodes() {
		for _, v := range n.Out() {
			c.value[v.ID()] = ids.of(fmt.Sprint("value ", c.node[i], v.Index()))
		}
	}
	fresh := newNumbers()
	node, value := make([]int, len(c.node)), make([]int, len(c.value))
	for i, n := range f.Nodes() {
		key := fmt.Sprint("node ", c.node[i])
		for _, v := range n.In() {
			key += fmt.Sprint(" ", v.Node() == nil, c.value[v.ID()])
		}
		node[i] = fresh.of(key)
		for _, v := range n.Out() {
			value[v.ID()] = fresh.of(fmt.Sprint("value ", c.node[i], v.Index(), c.usedBy(users[v.ID()])))
		}
	}
	for _, v := range f.Params() {
		value[v.ID()] = fresh.of(fmt.Sprint("param ", c.value[v.ID()], c.usedBy(users[v.ID()])))
	}
	for i, n := range f.Nodes() {
		key := fmt.Sprint("made ", node[i])
		for _, v := range n.Out() {
			key += fmt.Sprint(" ", value[v.ID()])
		}
		node[i] = fresh.of(key)
	}
	c.node, c.value, c.count = node, value, fresh.count()
}

func (c *classes) usedBy(list []user) string {
	var b strings.Builder
	for _, u := range list {
		fmt.Fprintf(&b, " %d.%d", c.node[u.node], u.operand)
	}
	return b.String()
}

// withoutNumbers returns a name with every number in it taken out.
func withoutNumbers(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// numbers gives equal texts equal numbers, in order of first appearance.
type numbers struct{ at map[string]int }

func newNumbers() *numbers { return &numbers{map[string]int{}} }

func (n *numbers) of(key string) int {
	if i, ok := n.at[key]; ok {
		return i
	}
	n.at[key] = len(n.at)
	return len(n.at) - 1
}

func (n *numbers) count() int { return len(n.at) }
