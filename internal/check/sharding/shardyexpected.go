package sharding

import (
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// expected returns how Shardy runs the ops, and the bytes that it sends.
func (x *explicit) expected() ([]string, float64, error) {
	e := &expectation{x: x, at: map[string]op.Layout{}, of: map[string]*ir.Value{}}
	for _, a := range x.c.Args {
		v := x.values[a.ID]
		e.at[a.ID], e.of[a.ID] = x.fixed[v], v
	}
	if len(x.c.Expected) == 0 && slices.Contains(x.c.Absent, "sdy.reshard") {
		return e.untouched()
	}
	for _, o := range x.c.Expected {
		if err := e.step(o); err != nil {
			return nil, 0, err
		}
	}
	if len(e.list) < e.ops() {
		return nil, 0, absent("expected only in part")
	}
	return e.list, e.bytes, nil
}

// expectation matches the expected ops.
type expectation struct {
	x     *explicit
	at    map[string]op.Layout
	of    map[string]*ir.Value
	next  int // the next op of the case
	list  []string
	bytes float64
}

// untouched returns a case in which nothing is resharded: every op runs on its operands in their layouts.
func (e *expectation) untouched() ([]string, float64, error) {
	for k, results := range e.x.last {
		var need, give []mesh.Spec
		for _, d := range e.x.data[k] {
			at := e.x.fixed[e.x.values[e.x.c.Ops[k].Operands[d]]]
			if !at.Mesh.Equal(e.x.on(k)) && !at.Spec.IsWhole() {
				return nil, 0, absent("Shardy leaves ops on several meshes alone")
			}
			need = append(need, at.Spec)
		}
		for _, v := range results {
			give = append(give, e.x.fixed[v].Spec)
		}
		if !e.x.runs(k, need, give) {
			return nil, 0, absent("Shardy runs the op so that it communicates inside, which is not counted")
		}
		e.list = append(e.list, e.x.way(k, need, give))
	}
	return e.list, 0, nil
}

// ops returns the number of ops in the case, reshards written by users left out.
func (e *expectation) ops() int {
	return len(slices.DeleteFunc(slices.Clone(e.x.c.Ops),
		func(o shardyFixedOp) bool { return o.Op == "sdy.reshard" }))
}

func (e *expectation) step(o shardyExpected) error {
	if !strings.HasPrefix(o.Op, "sdy.") {
		return e.op(o)
	}
	if len(o.Operands) != 1 || e.of[o.Operands[0]] == nil || o.Out == nil {
		return absent("expected only in part")
	}
	v, from := e.of[o.Operands[0]], e.at[o.Operands[0]]
	to, err := e.x.c.layout(o.Out, len(v.Shape()), e.x.m)
	if err != nil {
		return err
	}
	if o.Op == "sdy.all_reduce" {
		axes, err := shardyAxes(o.Axes)
		if err != nil {
			return err
		}
		e.bytes += byBytes().Price(to.Mesh, v.Type(),
			spmd.Move{Kind: spmd.AllReduce, Axes: axes, Before: from.Spec, After: to.Spec}).Bytes
	} else {
		_, bytes, err := reshardMoves(v.Type(), from, to)
		if err != nil {
			return err
		}
		e.bytes += bytes
	}
	e.at[o.ID], e.of[o.ID] = to, v
	return nil
}

// op matches the next op of the case with the expected one.
func (e *expectation) op(o shardyExpected) error {
	for e.next < len(e.x.c.Ops) && e.x.c.Ops[e.next].Op == "sdy.reshard" {
		e.next++
	}
	if e.next >= len(e.x.c.Ops) || e.x.c.Ops[e.next].Op != o.Op {
		return absent("expected only in part")
	}
	k := e.next
	e.next++
	var need, give []mesh.Spec
	for _, d := range e.x.data[k] {
		if d >= len(o.Operands) || e.of[o.Operands[d]] == nil {
			return absent("expected only in part")
		}
		need = append(need, e.at[o.Operands[d]].Spec)
	}
	for i, v := range e.x.last[k] {
		s := e.x.fixed[v]
		if !o.Unchecked && i < len(o.Shardings) {
			var err error
			if s, err = e.x.c.layout(&o.Shardings[i], len(v.Shape()), e.x.m); err != nil {
				return err
			}
		}
		give = append(give, s.Spec)
		for _, id := range []string{o.ID, o.ID + "#" + strconv.Itoa(i)} {
			if i == 0 || id != o.ID {
				e.at[id], e.of[id] = s, v
			}
		}
	}
	if !e.x.runs(k, need, give) {
		return absent("Shardy runs the op so that it communicates inside, which is not counted")
	}
	e.list = append(e.list, e.x.way(k, need, give))
	return nil
}
