package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
)

// stripElems is the approximate number of elements of a value that are computed at once; with a few others
// they fit the first-level cache.
const stripElems = 1 << 12

// runStrips runs the loop a few rows at a time, node by node, with the ops' own kernels.
func (p *fusedProgram) runStrips(env *Env, in, out []array.Array) {
	sums := p.newColumnSums(out)
	for _, part := range p.parts {
		height := max(1, stripElems/part.cols)
		chunk := max(height, grain*4/part.cols)
		if p.plan.columns {
			chunk = columnRows
		}
		env.Pool.For(blocks(part.rows, chunk), 1, func(lo, hi int) {
			s := p.newStrip(part, height, in, out)
			s.leaves = sums.leaves
			for t := lo; t < hi; t++ {
				clearSums(s.sums)
				for r := t * chunk; r < min((t+1)*chunk, part.rows); r += height {
					s.rows(r, min(height, min((t+1)*chunk, part.rows)-r))
				}
				sums.keep(t, s.sums)
			}
		})
	}
	sums.join()
}

// strip holds some rows of all values.
type strip struct {
	p      *fusedProgram
	part   loopPart
	in     []array.Array
	out    []array.Array
	height int
	env    Env
	// memory is that of values, and gathered that of streams whose rows are not evenly spaced.
	memory, gathered map[any][]byte
	sums             []array.Array
	leaves           []array.Array // of total sums, by row
	values           map[*ir.Value]array.Array
}

func (p *fusedProgram) newStrip(part loopPart, height int, in, out []array.Array) *strip {
	s := &strip{p: p, part: part, in: in, out: out, height: height, memory: map[any][]byte{},
		gathered: map[any][]byte{}, values: map[*ir.Value]array.Array{}}
	for _, ln := range p.plan.nodes {
		v := ln.node.Out()[0]
		if ln.loop.Kind == LoopConstant {
			a := array.New(v.DType(), 1, 1)
			Run(&s.env, ln.node.Op().(Op), nil, []array.Array{a})
			s.values[v] = a
		}
	}
	s.allot()
	s.sums = p.emptySums(part.cols)
	return s
}

// allot assigns memory to values that are not results, reusing that of values that are no longer needed.
func (s *strip) allot() {
	plan := s.p.plan
	last := map[*ir.Value]int{}
	for i := range plan.nodes {
		for _, o := range plan.in[i] {
			if o.value != nil {
				last[plan.base(o.value)] = i
			}
		}
	}
	for _, st := range s.p.stores { // these are copied after all nodes have run
		if v := st.from.value; v != nil {
			last[plan.base(v)] = len(plan.nodes)
		}
	}
	var free [][]byte
	for i, ln := range plan.nodes {
		v := ln.node.Out()[0]
		if plan.level[v] == perElem && plan.base(v) == v {
			if n := len(free); n > 0 {
				s.memory[v], free = free[n-1], free[:n-1]
			} else {
				s.memory[v] = array.New(plan.dtype(), s.height*s.part.cols).Bytes()
			}
		} else if plan.level[v] == perRow {
			s.memory[v] = array.New(plan.dtype(), s.height).Bytes()
		}
		done := map[*ir.Value]bool{}
		for _, o := range plan.in[i] {
			if o.value == nil {
				continue
			}
			b := plan.base(o.value)
			if last[b] == i && plan.level[b] == perElem && s.memory[b] != nil && b != v && !done[b] {
				free, done[b] = append(free, s.memory[b]), true
			}
		}
	}
}

// rows computes n rows, starting at row r.
func (s *strip) rows(r, n int) {
	plan := s.p.plan
	column, total := 0, 0
	for i, ln := range plan.nodes {
		v := ln.node.Out()[0]
		if plan.level[v] == atPlace {
			continue
		}
		in := make([]array.Array, len(plan.in[i]))
		for k, o := range plan.in[i] {
			in[k] = s.operand(o, r, n)
		}
		switch ln.loop.Kind {
		case LoopConstant:
		case LoopColumns:
			addStrip(s.sums[column], in[0], n)
			column++
		case LoopTotal:
			sumLeaves(s.leaves[total], in[0], s.part.first+r, n, s.part.cols)
			total++
		case LoopSame, LoopWalk:
			s.values[v] = in[0]
			if plan.base(v) == v { // an operand of the loop
				s.values[v] = s.array(v, r, n)
				copyBytes(&s.env, s.values[v], in[0])
			}
		case LoopFold:
			a := s.array(v, r, n)
			s.values[v] = a
			Run(&s.env, ln.loop.Row, in, []array.Array{a.Reshape(n)})
		case LoopRepeat:
			a := s.array(v, r, n)
			s.values[v] = a
			expand{}.Eval(&s.env, in, []array.Array{a})
		default:
			a := s.array(v, r, n)
			s.values[v] = a
			Run(&s.env, ln.node.Op().(Op), in, []array.Array{a})
		}
	}
	s.store(r, n)
}

func (s *strip) operand(o operand, r, n int) array.Array {
	if o.value == nil {
		return s.stream(o.stream, r, n)
	}
	return s.values[o.value]
}

// array returns the memory in which rows of a value are computed: that of its result, if its rows are evenly
// spaced there.
func (s *strip) array(v *ir.Value, r, n int) array.Array {
	cols := s.part.cols
	if s.p.plan.level[v] == perRow {
		cols = 1
	}
	if i := s.storeOf(v); i >= 0 && s.direct(i, n, cols) {
		at, _, _ := s.part.stores[i].at(r)
		return elements(s.out[s.p.stores[i].result], v.DType(), at, n, cols)
	}
	return array.View(v.DType(), array.Shape{n, cols}, s.memory[v][:n*cols*v.DType().Size()])
}

// elements returns n rows of an array, starting at an element.
func elements(a array.Array, dtype array.DType, at, n, cols int) array.Array {
	size := dtype.Size()
	return array.View(dtype, array.Shape{n, cols}, a.Bytes()[at*size:(at+n*cols)*size])
}

// storeOf returns the index of the store that writes the value to a result of its own; -1 if there is none.
func (s *strip) storeOf(v *ir.Value) int {
	for i, st := range s.p.stores {
		if st.from.value == v && !st.moved {
			return i
		}
	}
	return -1
}

// direct reports whether n rows of a store are contiguous.
func (s *strip) direct(i, n, cols int) bool { return n == 1 || s.part.stores[i].even(cols) }

// store copies results that were not computed in place.
func (s *strip) store(r, n int) {
	for i, st := range s.p.stores {
		w := s.part.stores[i]
		if w.step == 0 || !st.moved && s.direct(i, n, s.part.cols) {
			continue
		}
		from, to := s.operand(st.from, r, n), s.out[st.result]
		elem := to.DType().Size()
		row := elem * s.part.cols
		for k := range n {
			at, _, _ := w.at(r + k)
			copy(to.Bytes()[at*elem:][:row], from.Bytes()[k*row:][:row])
		}
	}
}

// stream returns rows of an operand, in a shape that broadcasts to that of the strip.
func (s *strip) stream(i, r, n int) array.Array {
	w, a := s.part.streams[i], s.in[s.p.param[i]]
	cols := 1
	if w.step == 1 {
		cols = s.part.cols
	}
	at, _, _ := w.at(r)
	switch {
	case w.still():
		return elements(a, a.DType(), at, 1, cols)
	case n == 1 || w.even(cols):
		return elements(a, a.DType(), at, n, cols)
	}
	size := a.DType().Size() * cols
	if s.gathered[i] == nil {
		s.gathered[i] = make([]byte, s.height*size)
	}
	buf := s.gathered[i][:n*size]
	for k := range n {
		at, _, _ := w.at(r + k)
		copy(buf[k*size:(k+1)*size], a.Bytes()[at*a.DType().Size():])
	}
	return array.View(a.DType(), array.Shape{n, cols}, buf)
}

// addStrip adds rows to a column sum, one after the other.
func addStrip(sum, rows array.Array, n int) {
	float(sum, func() { addEach[float32](sum, rows, n) }, func() { addEach[float64](sum, rows, n) })
}

func addEach[T floats](sum, rows array.Array, n int) {
	dst, x := array.Data[T](sum), array.Data[T](rows)
	for k := range n {
		row := x
		if len(x) > len(dst) {
			row = x[k*len(dst) : (k+1)*len(dst)]
		}
		kernel.Add(dst, dst, row)
	}
}

// sumLeaves sums n rows into leaves, starting at index from.
func sumLeaves(leaves, rows array.Array, from, n, cols int) {
	float(rows, func() { sumEach[float32](leaves, rows, from, n, cols) },
		func() { sumEach[float64](leaves, rows, from, n, cols) })
}

func sumEach[T floats](leaves, rows array.Array, from, n, cols int) {
	dst, x := array.Data[T](leaves)[from:], array.Data[T](rows)
	for k := range n {
		dst[k] = kernel.Sum(x[k*cols : (k+1)*cols])
	}
}
