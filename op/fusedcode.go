package op

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/jit"
	"github.com/galley-ml/galley/internal/lane"
)

// callElems is the approximate number of elements per call of generated code, which cannot be preempted.
const callElems = 1 << 15

// LoopsCompiled reports whether loops are compiled to machine code on this machine.
func LoopsCompiled() bool {
	_, err := jit.Best()
	return err == nil
}

// loopCode is the machine code of a part of a loop.
type loopCode struct {
	part loopPart
	code *jit.Code
	// past is code that writes large results with non-temporal stores, if they are aligned; nil if there are
	// none.
	past *jit.Code
	// runs holds the state of finished tasks for reuse.
	runs *sync.Pool
}

// compile generates code for all parts, or returns the reason why strips run instead.
func (p *fusedProgram) compile() error {
	set, err := jit.Best()
	if err != nil {
		return err
	}
	for _, part := range p.parts {
		program := p.program(part)
		code, err := jit.Compile(program, set)
		var past *jit.Code
		if program.Past = p.past(part); err == nil && program.Past != nil {
			past, err = jit.Compile(program, set)
		}
		if err != nil {
			p.code = nil
			return err
		}
		p.code = append(p.code, loopCode{part: part, code: code, past: past, runs: &sync.Pool{}})
	}
	return nil
}

// pastBytes is what a loop reads and writes from which on its large results, at least a quarter of that size,
// are written with non-temporal stores: caches of a usual host do not hold all of it, and bypassing them
// saves reading the memory that is overwritten.
var pastBytes = 24 << 20

// pastWork is the number of instructions per moved element up to which a single-pass loop is memory-bound.
// With more of them, the memory that is overwritten is read in parallel with computing.
const pastWork = 10

// bound reports whether a loop is memory-bound.
func (p *LoopPlan) bound(stores int) bool {
	work, moved := 0, stores
	for _, ln := range p.nodes {
		if p.level[ln.node.Out()[0]] == perElem {
			work += ln.Instructions()
		}
	}
	for _, s := range p.streams {
		moved += s.step
	}
	return p.Phases > 1 || work <= pastWork*moved
}

// moved returns the bytes that the loop reads and writes.
func (p *fusedProgram) moved() int {
	total := 0
	for _, s := range p.plan.streams {
		total += s.value.Type().Bytes()
	}
	for _, s := range p.stores {
		total += p.results[s.result].Type().Bytes()
	}
	return total
}

// past returns which results are written with non-temporal stores; nil if none is.
func (p *fusedProgram) past(part loopPart) []bool {
	if !p.plan.bound(len(p.stores)) {
		return nil
	}
	list := make([]bool, len(p.plan.streams)+len(p.stores))
	large := p.moved() >= pastBytes
	for i, s := range p.stores {
		w, size := part.stores[i], p.results[s.result].DType().Size()
		list[len(p.plan.streams)+i] = large && w.step == 1 && size == p.plan.lane &&
			part.cols*size%jit.PastAlign == 0 && p.results[s.result].Type().Bytes() >= pastBytes/4
	}
	if !slices.Contains(list, true) {
		return nil
	}
	return list
}

// program returns the loop in the form of the code generator: streams of operands, then of results, then
// column sums and the leaves of total sums.
func (p *fusedProgram) program(part loopPart) *jit.Program {
	out := &jit.Program{Cols: part.cols, Double: p.plan.lane == 8}
	plan, number := p.plan, map[*ir.Value]int{}
	add := func(v jit.Value) int {
		out.Values = append(out.Values, v)
		return len(out.Values) - 1
	}
	for i, s := range plan.streams {
		level := jit.Elem
		if s.step == 0 {
			level = jit.Row
		}
		truth := s.value.DType() == array.Bool
		add(jit.Value{Kind: jit.Stream, Level: level, Stream: i, Truth: truth})
		out.Bytes, out.Half = append(
			out.Bytes,
			s.value.DType().Size(),
		), append(
			out.Half,
			s.value.DType() == array.F16,
		)
	}
	var columns, leaves []int
	for i, ln := range plan.nodes {
		v := ln.node.Out()[0]
		in := make([]int, len(plan.in[i]))
		for k, o := range plan.in[i] {
			if in[k] = o.stream; o.value != nil {
				in[k] = number[o.value]
			}
		}
		if ln.loop.Kind == LoopColumns {
			columns = append(columns, in[0])
			continue
		}
		if ln.loop.Kind == LoopTotal {
			leaves = append(leaves, add(jit.Value{Kind: jit.Fold, Level: jit.Row, In: in, Phase: plan.phase[v] + 1}))
			continue
		}
		if plan.level[v] == atPlace {
			continue
		}
		number[v] = add(p.codeValue(ln, in))
		if c, ok := p.rounding(ln, number[v]); ok {
			number[v] = add(c)
		}
	}
	out.Streams = len(plan.streams)
	for _, s := range p.stores {
		from := s.from.stream
		if s.from.value != nil {
			from = number[s.from.value]
		}
		out.Stores = append(out.Stores, jit.Store{Value: from, Stream: out.Streams})
		out.Streams++
		dtype := p.results[s.result].DType()
		out.Bytes, out.Half = append(out.Bytes, dtype.Size()), append(out.Half, dtype == array.F16)
	}
	sum := func(x int, columns bool) {
		out.Stores = append(out.Stores, jit.Store{Value: x, Stream: out.Streams, Add: columns})
		out.Streams++
		out.Bytes, out.Half = append(out.Bytes, plan.lane), append(out.Half, false)
	}
	for _, x := range columns {
		sum(x, true)
	}
	for _, x := range leaves {
		sum(x, false)
	}
	return out
}

// rounding returns a conversion of a node's value to a 16-bit float, if it should be one and is not yet.
func (p *fusedProgram) rounding(ln *LoopNode, value int) (jit.Value, bool) {
	v := ln.node.Out()[0]
	if k := ln.loop.Kind; !v.DType().IsHalf() || k != LoopMap && k != LoopFold && k != LoopConstant {
		return jit.Value{}, false
	}
	c := jit.Value{Kind: jit.Map, In: []int{value}, Phase: p.plan.phase[v], Level: jit.Elem,
		Lane: func(b *lane.Builder, in []lane.Arg) lane.Arg {
			if v.DType() == array.F16 {
				return b.ToF16(in[0])
			}
			return b.ToBF16(in[0])
		}}
	switch {
	case p.plan.level[v] == perRow:
		c.Level = jit.Row
	case ln.loop.Kind == LoopConstant:
		a := array.New(v.DType())
		a.Set(0, ln.loop.Value)
		return jit.Value{Kind: jit.Number, Level: jit.Const, Number: a.At(0)}, true
	}
	return c, true
}

// codeValue returns a node in the form of the code generator.
func (p *fusedProgram) codeValue(ln *LoopNode, in []int) jit.Value {
	v := ln.node.Out()[0]
	c := jit.Value{In: in, Phase: p.plan.phase[v], Truth: v.DType() == array.Bool}
	if p.plan.level[v] == perRow {
		c.Level = jit.Row
	}
	switch ln.loop.Kind {
	case LoopConstant:
		c.Kind, c.Level, c.Number = jit.Number, jit.Const, ln.loop.Value
	case LoopSame, LoopRepeat, LoopWalk:
		c.Kind = jit.Copy
	case LoopFold:
		c.Kind, c.Fold, c.Count = jit.Fold, ln.loop.Fold, ln.loop.Count
	default:
		c.Kind, c.Lane = jit.Map, ln.loop.Lane
	}
	return c
}

// runCode runs the loop as generated code.
func (p *fusedProgram) runCode(env *Env, in, out []array.Array) {
	sums := p.newColumnSums(out)
	for _, c := range p.code {
		rows := max(1, callElems/c.part.cols)
		if p.plan.columns {
			rows = columnRows
		}
		env.Pool.For(blocks(c.part.rows, rows), 1, func(lo, hi int) {
			r := p.codeRun(&c)
			r.begin(in, out, sums.leaves)
			for t := lo; t < hi; t++ {
				clearSums(r.sums)
				r.rows(t*rows, min((t+1)*rows, c.part.rows))
				sums.keep(t, r.sums)
			}
			r.end()
			c.runs.Put(r)
		})
	}
	sums.join()
}

// codeRun is the state of one task.
type codeRun struct {
	p     *fusedProgram
	c     *loopCode
	walks []rowWalk
	data  []unsafe.Pointer
	bytes []int
	sums  []array.Array
	call  jit.Call
}

// codeRun returns the state of a finished task, or a new one.
func (p *fusedProgram) codeRun(c *loopCode) *codeRun {
	if r, ok := c.runs.Get().(*codeRun); ok {
		return r
	}
	r := &codeRun{p: p, c: c, sums: p.emptySums(c.part.cols)}
	for i, w := range c.part.streams {
		r.walks, r.bytes = append(r.walks, w), append(r.bytes, p.plan.streams[i].value.DType().Size())
	}
	for i, s := range p.stores {
		r.walks, r.bytes = append(r.walks, c.part.stores[i]), append(r.bytes, p.results[s.result].DType().Size())
	}
	for range r.sums {
		r.walks = append(r.walks, rowWalk{dims: []walkDim{{c.part.rows, 0}}})
		r.bytes = append(r.bytes, p.plan.lane)
	}
	for range p.plan.kind(LoopTotal) {
		r.walks = append(r.walks, rowWalk{offset: c.part.first, dims: []walkDim{{c.part.rows, 1}}})
		r.bytes = append(r.bytes, p.plan.lane)
	}
	r.data = make([]unsafe.Pointer, len(r.walks))
	n := len(r.walks)
	r.call.Base, r.call.Stride, r.call.Block = make([]unsafe.Pointer, n), make([]int, n), make([]int, n)
	r.call.Scratch = array.New(array.U8, c.code.Scratch()).Bytes()
	return r
}

// begin binds the run to arrays.
func (r *codeRun) begin(in, out, leaves []array.Array) {
	k := 0
	add := func(b []byte) { r.data[k], k = unsafe.Pointer(unsafe.SliceData(b)), k+1 }
	for i := range r.c.part.streams {
		add(in[r.p.param[i]].Bytes())
	}
	for _, s := range r.p.stores {
		add(out[s.result].Bytes())
	}
	for _, s := range slices.Concat(r.sums, leaves) {
		add(s.Bytes())
	}
}

// end drops the references to arrays, so that they are not kept alive.
func (r *codeRun) end() {
	clear(r.data)
	clear(r.call.Base)
}

// rows runs rows lo to hi, in calls over as many rows as are evenly spaced in all arrays, in blocks and from
// block to block.
func (r *codeRun) rows(lo, hi int) {
	for lo < hi {
		n := hi - lo
		for i, w := range r.walks {
			at, run, stride := w.at(lo)
			n = min(n, run)
			r.call.Base[i] = unsafe.Add(r.data[i], at*r.bytes[i])
			r.call.Stride[i] = stride * r.bytes[i]
		}
		blocks := (hi - lo) / n
		for i, w := range r.walks {
			again, apart := w.blocks(lo, n)
			blocks = min(blocks, again)
			r.call.Block[i] = apart * r.bytes[i]
		}
		r.call.Rows, r.call.Blocks = n, blocks
		if r.c.past != nil && r.aligned() {
			r.c.past.Run(&r.call)
		} else {
			r.c.code.Run(&r.call)
		}
		lo += n * blocks
	}
}

// aligned reports whether all rows of results are aligned as non-temporal stores require.
func (r *codeRun) aligned() bool {
	from := len(r.c.part.streams)
	for i := from; i < from+len(r.p.stores); i++ {
		if r.walks[i].step == 1 && (uintptr(r.call.Base[i])|uintptr(r.call.Stride[i])|uintptr(r.call.Block[i]))%
			jit.PastAlign != 0 {
			return false
		}
	}
	return true
}
