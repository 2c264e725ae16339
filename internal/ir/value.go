package ir

import (
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
)

// Scope holds values and applies ops to them: a Builder adds a node, an eager session computes.
type Scope interface {
	// Apply never fails: an error makes the results invalid, and they carry it.
	Apply(op Op, in []*Value) []*Value
}

// Value is a tensor: a name in a program that is being built, or data in an eager session.
type Value struct {
	typ   Type
	scope Scope
	id    int
	name  string
	node  *Node
	index int
	store any
	// tracked values keep the node that computed them even if nothing else needs it, so that they can be
	// differentiated.
	tracked bool
	err     error
	// later is data that is fetched when it is first read.
	later *later
	auto  *autograd
}

// later is shared by all values with the same data.
type later struct {
	once  sync.Once
	fetch func() (any, error)
	store any
	err   error
}

func (l *later) get() (any, error) {
	l.once.Do(func() {
		l.store, l.err = l.fetch()
		l.fetch = nil // release what it references
	})
	return l.store, l.err
}

// Node is one application of an op.
type Node struct {
	op  Op
	in  []*Value
	out []*Value
	pos Pos
	seq int
	// released nodes have dropped their operands; by is the line that did so.
	released bool
	by       Pos
}

// Op returns the node's op.
func (n *Node) Op() Op { return n.op }

// In returns the node's operands; the slice must not be changed.
func (n *Node) In() []*Value { return n.in }

// Out returns the node's results; the slice must not be changed.
func (n *Node) Out() []*Value { return n.out }

// Pos returns the source line that made the node.
func (n *Node) Pos() Pos { return n.pos }

// Seq increases in the order in which a scope made its nodes: an operand's node has a smaller one.
func (n *Node) Seq() int { return n.seq }

// Apply applies op to values in the scope they share. If eager and traced values are mixed, the trace
// captures the eager ones; of a trace and one inside it, the inner applies.
func Apply(op Op, in ...*Value) []*Value {
	return scopeOf(in).Apply(op, in)
}

func scopeOf(in []*Value) Scope {
	var eager Scope
	var traced *Builder
	for _, v := range in {
		if v == nil { // the scope reports which
			continue
		}
		if b, ok := v.scope.(*Builder); ok && (traced == nil || b.level > traced.level) {
			traced = b
		}
		if eager == nil {
			eager = v.scope
		}
	}
	if traced != nil {
		return traced
	}
	if eager == nil {
		panic("ir: an op needs at least one operand that is not nil")
	}
	return eager
}

// Leaf returns a value with data given to a scope, such as an eager session. It is invalid if t is.
func Leaf(s Scope, t Type, store any) *Value {
	if err := t.check(); err != nil {
		return Invalid(s, &Error{Pos: Caller(), Op: "tensor", Err: err})
	}
	return &Value{typ: t, scope: s, store: store}
}

// Later returns a leaf whose data is fetched when it is first read: state on other
// devices.
func Later(s Scope, t Type, fetch func() (any, error)) *Value {
	return &Value{typ: t, scope: s, later: &later{fetch: fetch}}
}

// Invalid returns a value with an error instead of data.
func Invalid(s Scope, err error) *Value { return &Value{scope: s, err: err} }

// fewResults is more than the number of results of any op for which it is fixed.
const fewResults = 16

// InvalidResults returns as many invalid values as op has results, or more if that is unknown. An op whose
// number of results is an attribute implements NumResults.
func InvalidResults(s Scope, op Op, operands int, err error) []*Value {
	count := fewResults
	if c, ok := op.(interface{ NumResults(operands int) int }); ok {
		count = max(1, c.NumResults(operands)) // at least one carries the error
	}
	out := make([]*Value, count)
	for i := range out {
		out[i] = Invalid(s, err)
	}
	return out
}

// Record sets the node of results: the op and operands that computed them; seq orders the scope's nodes.
func Record(op Op, in, out []*Value, seq int) {
	n := &Node{op: op, in: in, out: out, seq: seq}
	for i, v := range out {
		v.node, v.index, v.tracked = n, i, true
	}
}

// Detach returns the same data without its gradient history. A traced value is returned unchanged: there an
// op stops the gradient.
func (v *Value) Detach() *Value {
	if v.node == nil && !v.tracked || v.store == nil && v.later == nil {
		return v
	}
	return &Value{typ: v.typ, scope: v.scope, store: v.store, later: v.later, name: v.name}
}

// Track returns a leaf with v's data; what is computed from it is recorded, so that gradients can reach it.
func (v *Value) Track() *Value {
	return &Value{typ: v.typ, scope: v.scope, store: v.store, later: v.later, name: v.name, tracked: true,
		err: v.err}
}

// Tracked reports whether computations with v are recorded.
func (v *Value) Tracked() bool { return v.tracked }

// Type returns v's dtype and shape; an invalid value has none.
func (v *Value) Type() Type { return v.typ }

// DType returns the type of v's elements.
func (v *Value) DType() array.DType { return v.typ.DType }

// Shape returns v's dims; it must not be changed.
func (v *Value) Shape() array.Shape { return v.typ.Shape }

// Dim returns the size of dim i; a negative i counts from the last. It is 0 for a dim that does not exist, so
// that the op that uses it reports the mistake.
func (v *Value) Dim(i int) int {
	if i < 0 {
		i += len(v.typ.Shape)
	}
	if i < 0 || i >= len(v.typ.Shape) {
		return 0
	}
	return v.typ.Shape[i]
}

// Scope returns the scope of v.
func (v *Value) Scope() Scope { return v.scope }

// ID returns v's index in its Func: params first, then results in program order.
func (v *Value) ID() int { return v.id }

// Name returns the name of a param; other values have none.
func (v *Value) Name() string { return v.name }

// Node returns the node that computed v; nil for a param or a leaf.
func (v *Value) Node() *Node { return v.node }

// Index returns v's position among its node's results.
func (v *Value) Index() int { return v.index }

// Store returns the data that an eager scope keeps for v; nil for a traced value.
func (v *Value) Store() any {
	if v.later != nil {
		store, _ := v.later.get()
		return store
	}
	return v.store
}

// Err returns why v is invalid; nil if it is valid.
func (v *Value) Err() error {
	if v.later != nil && v.err == nil {
		_, err := v.later.get()
		return err
	}
	return v.err
}

// String returns v's name in its program.
func (v *Value) String() string {
	if err := v.Err(); err != nil {
		return "invalid: " + err.Error()
	}
	if store := v.Store(); store != nil {
		return fmt.Sprint(store)
	}
	return fmt.Sprintf("%%%d: %v", v.id, v.typ)
}

// TypesOf returns the types of values.
func TypesOf(values []*Value) []Type {
	types := make([]Type, len(values))
	for i, v := range values {
		types[i] = v.Type()
	}
	return types
}
