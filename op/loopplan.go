package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// level is how often a value of a loop is computed.
type level uint8

const (
	outside   level = iota // an operand of the loop
	perElem                // one number per element
	perRow                 // one per row
	perColumn              // one per column: a column sum
	ofAll                  // one: a total sum
	atPlace                // one per element, at another position of the result
	constant               // a known number
)

// maxRow is the longest row of a fold: with a few others it stays in a core's second-level cache.
const maxRow = 1 << 15

// LoopNode holds the properties of a node that do not depend on its loop; Loops caches it.
type LoopNode struct {
	node *ir.Node
	loop Loop
	size int         // elements of the result; of the operand for a fold or a column sum
	dims [][]walkDim // how each operand is read
	run  int         // the longest row along which all operands are evenly spaced
	lane int         // bytes of a lane; 0 if any size will do
}

// NewLoopNode returns nil if the node cannot be part of a loop.
func NewLoopNode(n *ir.Node) *LoopNode {
	l, ok := loopOfNode(n)
	if !ok {
		return nil
	}
	out := n.Out()[0]
	ln := &LoopNode{node: n, loop: l, size: out.Shape().Len(), run: out.Shape().Len()}
	ln.lane, _ = laneSize(typesOfValues(n.In()), typesOfValues(n.Out()))
	switch l.Kind {
	case LoopFold, LoopColumns:
		ln.size, ln.run = n.In()[0].Shape().Len(), l.Cols
		ln.dims = [][]walkDim{{{ln.size, 1}}}
		return ln
	case LoopTotal:
		ln.size = n.In()[0].Shape().Len()
		ln.run, ln.dims = ln.size, [][]walkDim{{{ln.size, 1}}}
		return ln
	case LoopSame:
		ln.dims = [][]walkDim{mergedDims([]walkDim{{ln.size, 1}})}
		return ln
	case LoopWalk, LoopJoin:
		return ln.moving()
	}
	for _, x := range n.In() {
		dims := broadcastDims(x.Shape(), out.Shape())
		ln.dims = append(ln.dims, dims)
		if last := dims[len(dims)-1]; len(dims) > 1 {
			ln.run = min(ln.run, last.size)
		}
		if l.Kind == LoopRepeat {
			break // a second operand is not read
		}
	}
	return ln
}

// moving returns the properties of a walk or a join.
func (ln *LoopNode) moving() *LoopNode {
	in := ln.node.In()
	if ln.loop.Kind == LoopWalk {
		ln.dims, ln.run = [][]walkDim{ln.loop.Reads.dims}, ln.loop.Reads.run()
	} else {
		ln.size = in[0].Shape().Len()
		ln.dims = slices.Repeat([][]walkDim{mergedDims([]walkDim{{ln.size, 1}})}, len(in))
		ln.run = ln.size
	}
	for _, w := range ln.loop.Writes {
		ln.run = min(ln.run, w.run())
	}
	return ln
}

// Kind returns the node's role in a loop.
func (ln *LoopNode) Kind() LoopKind { return ln.loop.Kind }

// Size returns the number of elements that the node iterates over.
func (ln *LoopNode) Size() int { return ln.size }

// LaneBytes returns the size of the lanes that hold the node's floats.
func (ln *LoopNode) LaneBytes() int { return max(ln.lane, 4) }

// Cols returns the row length that the node requires, 0 if any will do.
func (ln *LoopNode) Cols() int {
	if ln.loop.Kind == LoopFold || ln.loop.Kind == LoopColumns {
		return ln.loop.Cols
	}
	return 0
}

// operand is an input of a node in a loop.
type operand struct {
	value *ir.Value // of the loop, nil if it is a stream
	// stream is the index of the operand that is read from outside.
	stream int
}

// stream is an operand of the loop and how it is traversed.
type stream struct {
	value *ir.Value
	rowWalk
}

// LoopPlan is several nodes fused into one loop over rows and columns.
type LoopPlan struct {
	Rows, Cols int
	nodes      []*LoopNode
	level      map[*ir.Value]level
	in         [][]operand // by node
	streams    []stream
	// Phases is the number of passes over a row: each fold ends one.
	Phases  int
	phase   map[*ir.Value]int
	folds   bool
	columns bool
	totals  bool
	// lane is the bytes of a lane: 8 for 64-bit floats, else 4.
	lane int
}

// PlanLoop fuses nodes, given in order, into one loop, or returns the reason why it cannot.
func PlanLoop(nodes []*LoopNode) (*LoopPlan, error) {
	p := &LoopPlan{nodes: nodes, level: make(map[*ir.Value]level, len(nodes)),
		phase: make(map[*ir.Value]int, len(nodes)), in: make([][]operand, 0, len(nodes))}
	if err := p.lanes(); err != nil {
		return nil, err
	}
	if err := p.shape(); err != nil {
		return nil, err
	}
	for _, ln := range nodes {
		if err := p.add(ln); err != nil {
			return nil, err
		}
	}
	if p.totals {
		return p, p.inLeaves()
	}
	return p, nil
}

// lanes determines the lane size that all nodes can share.
func (p *LoopPlan) lanes() error {
	for _, ln := range p.nodes {
		if p.lane != 0 && ln.lane != 0 && p.lane != ln.lane {
			return fmt.Errorf("floats of %d and of %d bits", 8*p.lane, 8*ln.lane)
		}
		p.lane = max(p.lane, ln.lane)
	}
	p.lane = max(p.lane, 4)
	return nil
}

// dtype returns the float dtype of the lanes.
func (p *LoopPlan) dtype() array.DType {
	if p.lane == 8 {
		return array.F64
	}
	return array.F32
}

// inLeaves returns the reason why the loop cannot be split into the leaves of a total sum, or nil if it can.
func (p *LoopPlan) inLeaves() error {
	if p.folds || p.Rows > 1 && p.Cols%kernel.SumBlock != 0 {
		return fmt.Errorf("a sum of all in rows of %d", p.Cols)
	}
	for _, at := range p.level {
		if at == perRow {
			return fmt.Errorf("a sum of all beside numbers of rows")
		}
	}
	return nil
}

// shape determines the rows and columns that all nodes can share.
func (p *LoopPlan) shape() error {
	size := 0
	for _, ln := range p.nodes {
		if ln.loop.Kind == LoopConstant {
			continue
		}
		size = max(size, ln.size)
		if c := ln.Cols(); c != 0 {
			if p.Cols != 0 && (p.Cols != c || p.Rows != ln.loop.Rows) {
				return fmt.Errorf("rows of %d and of %d columns", p.Cols, c)
			}
			p.Cols, p.Rows, p.folds = c, ln.loop.Rows, true
		}
	}
	if size == 0 {
		return fmt.Errorf("nothing to compute")
	}
	if p.Cols == 0 {
		p.Cols = size
		for _, ln := range p.nodes {
			if ln.size == size {
				p.Cols = min(p.Cols, ln.run)
			}
		}
		p.Rows = size / max(p.Cols, 1)
	}
	switch {
	case p.Rows*p.Cols != size:
		return fmt.Errorf("%d elements in rows of %d", size, p.Cols)
	case p.Cols < 2:
		return fmt.Errorf("rows of one element")
	case p.folds && p.Cols > maxRow:
		return fmt.Errorf("rows of %d elements do not stay in the cache", p.Cols)
	}
	return nil
}

// add adds a node to the loop.
func (p *LoopPlan) add(ln *LoopNode) error {
	out := ln.node.Out()[0]
	at, cols := perElem, p.Cols
	switch {
	case ln.loop.Kind == LoopConstant:
		p.level[out], p.in = constant, append(p.in, nil)
		return nil
	case ln.size == p.Rows*p.Cols:
	case ln.size == p.Rows:
		at, cols = perRow, 1
	default:
		return fmt.Errorf("%s goes through %d elements, the loop through %d", ln.node.Op().Name(), ln.size,
			p.Rows*p.Cols)
	}
	var in []operand
	phase := 0
	for i := range ln.dims {
		o, from, err := p.operand(ln, i, at, cols)
		if err != nil {
			return fmt.Errorf("%s: %w", ln.node.Op().Name(), err)
		}
		in, phase = append(in, o), max(phase, from)
	}
	p.in = append(p.in, in)
	switch ln.loop.Kind {
	case LoopFold:
		at, phase = perRow, phase+1
	case LoopColumns:
		at, p.columns = perColumn, true
	case LoopTotal:
		at, p.totals = ofAll, true
	case LoopWalk, LoopJoin:
		if ln.loop.Kind == LoopJoin || in[0].value != nil {
			for _, w := range ln.loop.Writes {
				if _, ok := w.inRows(cols); !ok {
					return fmt.Errorf("%s: the result has no rows of %d", ln.node.Op().Name(), cols)
				}
			}
			if at != perElem {
				return fmt.Errorf("%s: rows of one element", ln.node.Op().Name())
			}
			at = atPlace
		}
	}
	p.level[out], p.phase[out] = at, phase
	p.Phases = max(p.Phases, phase+1)
	return nil
}

// operand resolves operand i of a node at a level, and returns the phase in which it is available.
func (p *LoopPlan) operand(ln *LoopNode, i int, at level, cols int) (operand, int, error) {
	x, dims := ln.node.In()[i], ln.dims[i]
	whole := len(dims) == 1 && dims[0].stride == 1 && x.Shape().Len() == ln.size || ln.size == 1
	from := p.level[x]
	if kind := ln.loop.Kind; from != outside && (kind == LoopJoin || kind == LoopWalk) {
		if from != perElem || at != perElem || ln.loop.Writes == nil {
			return operand{}, 0, fmt.Errorf("%v is not there element by element", x.Type())
		}
		return operand{value: x}, p.phase[x], nil
	}
	switch from {
	case outside:
		w, ok := inRows(dims, cols)
		if ln.loop.Kind == LoopWalk {
			w.offset = ln.loop.Reads.offset
		}
		if !ok {
			return operand{}, 0, fmt.Errorf("%v is not read in rows of %d", x.Type(), cols)
		}
		return operand{stream: p.stream(x, w)}, 0, nil
	case constant:
		if k := ln.loop.Kind; k == LoopFold || k == LoopColumns || k == LoopTotal {
			return operand{}, 0, fmt.Errorf("%v is one number, and not a row of them", x.Type())
		}
		return operand{value: x}, 0, nil
	case perColumn, ofAll, atPlace:
		return operand{}, 0, fmt.Errorf("%v is known when all rows are done", x.Type())
	case perElem:
		if at != perElem || !whole {
			return operand{}, 0, fmt.Errorf("%v is not read element by element", x.Type())
		}
	case perRow:
		if at == perElem && !isRow(dims, p.Rows, p.Cols) || at == perRow && !whole {
			return operand{}, 0, fmt.Errorf("%v is not read once a row", x.Type())
		}
	}
	return operand{value: x}, p.phase[x], nil
}

// stream returns the index of a stream over an operand, adding it if it is new.
func (p *LoopPlan) stream(x *ir.Value, w rowWalk) int {
	for i, s := range p.streams {
		if s.value == x && s.equal(w) {
			return i
		}
	}
	p.streams = append(p.streams, stream{x, w})
	return len(p.streams) - 1
}

// Folds reports whether the loop has folds over rows.
func (p *LoopPlan) Folds() bool { return p.folds }

// Instructions returns the number of vector instructions per element.
func (ln *LoopNode) Instructions() int {
	if ln.loop.Lane == nil {
		return 1
	}
	return len(ln.loop.formula(ln.lane == 8, len(ln.node.In())).Code)
}
