package op

import (
	"fmt"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
)

// Bodied is implemented by ops that run programs, such as the branches of a condition and the body of a loop.
// The texts of the programs are attributes of the op.
type Bodied interface {
	Op
	// Bodies returns the programs for operands of these types. WithBodies returns the op with other programs of
	// the same signatures.
	Bodies(in []Type) ([]*ir.Func, error)
	WithBodies(bodies []*ir.Func) Op
	// Trips returns the maximal number of times that they run; 1 if it is not known.
	Trips(in []Type) int
}

// Trimmer is implemented by ops that can drop unused results. Trim returns the op with only the used results;
// its results and operands are those of the original op with the returned indices. It returns nil if nothing
// can be dropped.
type Trimmer interface {
	Trim(in []Type, used []bool) (o Op, results, operands []int)
}

// traceBody traces f with parameters of these types. Tensors from outside that f uses are captured.
func traceBody(name string, types []Type, f func(x []*Tensor) []*Tensor) (*ir.Func, int, error) {
	b := ir.NewBody(name)
	params := make([]*Tensor, len(types))
	for i, t := range types {
		params[i] = b.Param("", t)
	}
	results := f(params)
	if slices.Contains(results, nil) {
		return nil, len(results), &ir.Error{Pos: ir.Caller(), Op: name, Err: fmt.Errorf("the body returns nil")}
	}
	body, err := b.Build(results...)
	if err == nil {
		err = unconstrained(body)
	}
	return body, len(results), err
}

// unconstrained refuses sharding annotations inside a body, where layouts follow from the operands.
func unconstrained(body *ir.Func) error {
	for _, n := range body.Nodes() {
		if c, ok := n.Op().(constrain); ok {
			return &ir.Error{Pos: n.Pos(), Op: body.Name(), Err: fmt.Errorf(
				"sharding %s inside a body: want it of an operand or a result, outside", c.Sharding)}
		}
	}
	return nil
}

// closed returns bodies as programs without captures: after its first n parameters, each takes every tensor
// that one of the bodies captures.
func closed(n int, bodies ...*ir.Func) (programs []*ir.Func, captured []*Tensor, err error) {
	for _, f := range bodies {
		for _, v := range f.Captures() {
			if !slices.Contains(captured, v) {
				captured = append(captured, v)
			}
		}
	}
	for _, f := range bodies {
		b := ir.NewBuilder(f.Name())
		args := make([]*Tensor, n, n+len(captured))
		for i := range args {
			args[i] = b.Param("", f.Params()[i].Type())
		}
		for _, v := range captured {
			args = append(args, b.Param("", v.Type()))
		}
		own := slices.Clone(args[:n])
		for _, v := range f.Captures() {
			own = append(own, args[n+slices.Index(captured, v)])
		}
		program, err := b.Build(replayLive(b, f, own)...)
		if err != nil {
			return nil, nil, err
		}
		programs = append(programs, program)
	}
	return programs, captured, nil
}

// replayLive adds the nodes of f that its results depend on to b.
func replayLive(b *ir.Builder, f *ir.Func, args []*Tensor) []*Tensor {
	live := liveNodes(f, f.Results())
	return f.Replay(b, args, func(n *ir.Node, in []*Tensor) []*Tensor {
		if !live[n] {
			return make([]*Tensor, len(n.Out()))
		}
		return b.Apply(n.Op(), in)
	})
}

// liveNodes returns the nodes that the values depend on.
func liveNodes(f *ir.Func, values []*Tensor) map[*ir.Node]bool {
	live := map[*ir.Node]bool{}
	for _, v := range values {
		if v.Node() != nil {
			live[v.Node()] = true
		}
	}
	for _, n := range slices.Backward(f.Nodes()) {
		if !live[n] {
			continue
		}
		for _, v := range n.In() {
			if v.Node() != nil {
				live[v.Node()] = true
			}
		}
	}
	return live
}

// body is a program that is ready to run.
type body struct {
	f *ir.Func
	// offset is the address of each value in the memory of a run, by ID; -1 for parameters and results, which
	// are stored elsewhere.
	offset []int
	bytes  int
}

// bodies caches parsed programs by their text and the types of their operands.
var bodies = struct {
	sync.Mutex
	byText map[string]*body
}{byText: map[string]*body{}}

// manyBodies is the maximal number of cached programs.
const manyBodies = 512

// bodyOf returns the program of a text specialised to operands of these types.
func bodyOf(text string, in []Type) (*body, error) {
	key := text + fmt.Sprint(in)
	bodies.Lock()
	b := bodies.byText[key]
	bodies.Unlock()
	if b != nil {
		return b, nil
	}
	f, err := ir.Parse(text, Lookup)
	if err != nil {
		return nil, err
	}
	if len(in) != len(f.Params()) {
		return nil, fmt.Errorf("%s takes %d values: got %d", f.Name(), len(f.Params()), len(in))
	}
	builder := ir.NewBuilder(f.Name())
	args := make([]*Tensor, len(in))
	for i, t := range in {
		args[i] = builder.Param("", t)
	}
	ready := func(n *ir.Node, in []*Tensor) []*Tensor { return builder.Apply(readyToRun(n.Op()), in) }
	if f, err = builder.Build(f.Replay(builder, args, ready)...); err != nil {
		return nil, err
	}
	b = &body{f: f}
	b.plan()
	bodies.Lock()
	defer bodies.Unlock()
	if len(bodies.byText) >= manyBodies {
		clear(bodies.byText)
	}
	bodies.byText[key] = b
	return b, nil
}

// readyToRun returns an op with its program prepared, if it is a loop.
func readyToRun(o ir.Op) ir.Op {
	if f, ok := o.(fused); ok && f.program == nil {
		if inner, err := ir.Parse(f.Body, Lookup); err == nil {
			return Fused(inner)
		}
	}
	return o
}

// resultsOf returns the number of results of the program of a text, or 0 if it does not parse.
func resultsOf(text string) int {
	f, err := ir.Parse(text, Lookup)
	if err != nil {
		return 0
	}
	return len(f.Results())
}

// plan assigns memory to every value that is neither a parameter nor a result, and reuses that of values that
// are no longer needed.
func (b *body) plan() {
	last := make([]int, b.f.NumValues())
	for i, n := range b.f.Nodes() {
		for _, v := range slices.Concat(n.In(), n.Out()) {
			last[v.ID()] = i
		}
	}
	b.offset = slices.Repeat([]int{-1}, b.f.NumValues())
	given := make([]bool, b.f.NumValues())
	for _, v := range b.f.Results() {
		given[v.ID()] = true
	}
	var free, used []memorySpan
	for i, n := range b.f.Nodes() {
		for _, v := range n.Out() {
			if given[v.ID()] {
				continue
			}
			size := alignedBytes(v.Type().Bytes())
			at := slices.IndexFunc(free, func(s memorySpan) bool { return s.size >= size })
			s := memorySpan{at: b.bytes, size: size}
			if at >= 0 {
				s = free[at]
				free = slices.Delete(free, at, at+1)
			} else {
				b.bytes += size
			}
			b.offset[v.ID()], s.last = s.at, last[v.ID()]
			used = append(used, s)
		}
		used = slices.DeleteFunc(used, func(s memorySpan) bool {
			if s.last <= i {
				free = append(free, s)
			}
			return s.last <= i
		})
		slices.SortFunc(free, func(x, y memorySpan) int { return x.size - y.size })
	}
}

// memorySpan is memory that is in use until a node has run.
type memorySpan struct{ at, size, last int }

// run computes the results of args into out, with memory for intermediate values.
func (b *body) run(env *Env, memory []byte, args, out []array.Array) {
	values := make([]array.Array, b.f.NumValues())
	for i, p := range b.f.Params() {
		values[p.ID()] = args[i]
	}
	for i, v := range b.f.Results() {
		if v.Node() != nil && !values[v.ID()].IsValid() {
			values[v.ID()] = out[i]
		}
	}
	for _, n := range b.f.Nodes() {
		in, results := make([]array.Array, len(n.In())), make([]array.Array, len(n.Out()))
		for i, v := range n.In() {
			in[i] = values[v.ID()]
		}
		for i, v := range n.Out() {
			if at := b.offset[v.ID()]; at >= 0 {
				values[v.ID()] = array.View(v.DType(), v.Shape(), memory[at:at+v.Type().Bytes()])
			}
			results[i] = values[v.ID()]
		}
		Run(env, n.Op().(Op), in, results)
	}
	for i, v := range b.f.Results() {
		startFrom(env, out[i], values[v.ID()])
	}
}

// work returns the cost of one run of a body.
func (b *body) work() Work {
	var total Work
	for _, n := range b.f.Nodes() {
		w := n.Op().(Op).Work(typesOfValues(n.In()), typesOfValues(n.Out()))
		total.Flops, total.Bytes, total.Wire = total.Flops+w.Flops, total.Bytes+w.Bytes, total.Wire+w.Wire
	}
	return total
}

// wantTypes checks that values have the expected types.
func wantTypes(what string, got, want []Type) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: got %d, want %d", what, len(got), len(want))
	}
	for i, t := range got {
		if !t.Equal(want[i]) {
			return fmt.Errorf("%s %d is %v: want %v", what, i, t, want[i])
		}
	}
	return nil
}

// invalidated returns n invalid tensors in the scope of xs.
func invalidated(xs []*Tensor, n int, err error) []*Tensor {
	var s Scope
	for _, x := range xs {
		if x != nil {
			s = x.Scope()
		}
	}
	return slices.Repeat([]*Tensor{ir.Invalid(s, err)}, max(1, n))
}

// firstMistake returns the error of the first invalid tensor.
func firstMistake(name string, xs []*Tensor) error {
	for i, x := range xs {
		if x == nil {
			return &ir.Error{Pos: ir.Caller(), Op: name, Err: fmt.Errorf("operand %d is nil", i)}
		}
		if x.Err() != nil {
			return x.Err()
		}
	}
	return nil
}

// anyTracked reports whether gradients may reach a float among xs.
func anyTracked(xs []*Tensor) bool {
	return slices.ContainsFunc(xs, func(x *Tensor) bool { return x.DType().IsFloat() && x.Tracked() })
}
